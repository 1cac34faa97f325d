"""How well does a model do that two cores train in less than an hour, compared with the simplest way to answer?

    python bench/trainings.py chess players.pgn.zst
    python bench/trainings.py go players.tar.zst
    python bench/trainings.py neural v1_pattern_images.h5

Makes a project of the domain with the settings below, converts the input, trains, and reads the test split once.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.results import Row, arguments, save
from harness.sides import tell
from harness.stores import section_of
from outofcore.machine import load_machine

SETTINGS: dict[str, dict[str, Any]] = {
    "chess": {
        "filters": {"min_elo": 1900, "unknown_elo": "drop"},
        "splits": {"val": 0.01, "test": 0.02},
        "train": {
            "preset": "small",
            "epochs": 1,
            "max_steps": 600,
            "batch_size": 512,
            "learning_rate": 0.002,
            "warmup_steps": 50,
            "schedule": "cosine",
            "val_every": 75,
            "val_examples": 16384,
        },
    },
    "go": {
        "filters": {"sizes": [19]},
        "store": {"chunk_rows": 1024},
        "train": {
            "task": "style",
            "preset": "test",
            "epochs": 1,
            "max_steps": 400,
            "learning_rate": 0.005,
            "warmup_steps": 50,
            "schedule": "cosine",
            "min_games": 20,
            "players_per_batch": 18,
            "val_every": 100,
        },
    },
    "neural": {
        "source": {
            "names": {"responses": "robs", "spike_times": None, "spike_neurons": None, "trial": "trial"}
            | dict.fromkeys(("repeat", "frame_times")),
            "bin_width": None,
            "response_dtype": "float32",
            "transforms": [{"name": "downsample", "factor": 4}],
        },
        "tensors": {"lags": 1},
        "train": {
            "preset": "small",
            "loss": "squared",
            "epochs": 60,
            "learning_rate": 0.001,
            "schedule": "cosine",
            "val_every": 120,
        },
    },
}
# Of test.json: a figure, what it is called in the table, and the baseline's, in the figures and in words.
SHOWN = {
    "chess": [
        ("top1", "move played is the first of the model", "top1_most_frequent", "most frequent moves"),
        ("top5", "move played is among the first five", "top5_most_frequent", "most frequent moves"),
        ("policy_loss", "cross-entropy of the moves, nats", "policy_loss_frequencies", "frequencies of the moves"),
        ("value_loss", "squared error of the result", "value_loss_constant", "mean result"),
    ],
    "go": [
        ("top1_games_1", "player found from 1 game", "top1_games_1_heat_map", "heat maps of openings"),
        ("top1_games_5", "player found from 5 games", "top1_games_5_heat_map", "heat maps of openings"),
        ("top1_games_10", "player found from 10 games", "top1_games_10_heat_map", "heat maps of openings"),
    ],
    "neural": [
        ("correlation", "correlation with the recorded response", None, ""),
        ("squared_error", "squared error", "squared_error_mean_response", "mean response"),
    ],
}
CURVES = {"chess": ("top1", "policy_loss"), "go": ("top1_games_10", "top1_games_1"), "neural": ("correlation",)}
TABLES = {"chess": ("accuracy_by_elo",), "go": ("identification",), "neural": ()}
TITLES = {"chess": "Chess: the next move", "go": "Go: whose game is it", "neural": "Neural: a rate model"}


def run(folder: Path, program: str, *words: str) -> float:
    """Seconds of a program of this environment in the project."""
    tell(" ".join([program, *words]))
    started = time.perf_counter()
    subprocess.run([Path(sys.executable).with_name(program), *words], cwd=folder, check=True)
    return time.perf_counter() - started


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def table(path: Path) -> list[dict[str, float]]:
    """Rows of a file of DVC's plots."""
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with path.open(encoding="utf-8", newline="") as lines:
        return [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(lines, delimiter=delimiter)]


def trained(name: str, raw: Path, folder: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of the stages, figures of the test split, and curves."""
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    run(folder, "outofcore", "init", ".", "--domains", name)
    settings = {**SETTINGS[name], "train": {**SETTINGS[name]["train"], **changes}}
    section = section_of(name, raw, settings).model_dump(mode="json")
    (folder / "params.yaml").write_text(yaml.safe_dump({name: section}), encoding="utf-8")
    seconds = {stage: run(folder, "python", f"stages/{stage}.py", name) for stage in ("convert", "train", "evaluate")}
    plots, metrics = folder / "plots" / name, folder / "metrics" / name
    curves = plots / "train" / "plots" / "metrics" / "val"
    return {
        "seconds": {stage: round(each) for stage, each in seconds.items()},
        "convert": read(metrics / "convert.json")["rows"],
        "train": read(metrics / "train.json"),
        "test": read(metrics / "test.json"),
        "curves": {figure: table(curves / f"{figure}.tsv") for figure in CURVES[name]},
        "tables": {each: table(plots / f"{each}.csv") for each in TABLES[name]},
        "settings": settings,
    }


def rows(name: str, found: Mapping[str, Any]) -> list[Row]:
    """A row for each figure of the test split, with its interval and its baseline."""
    shown = []
    test = found["test"]
    for figure, label, baseline, words in SHOWN[name]:
        of: dict[str, Any] = {"label": label, "table": "trainings"}
        shown.append(Row(value=round(test[figure], 4), of="model", **of))
        if figure in test["low"]:
            shown.append(Row(value=f"{test['low'][figure]:.3g} to {test['high'][figure]:.3g}", of="interval", **of))
        if baseline:
            shown.append(Row(value=round(test[baseline], 4), of="baseline", **of))
            shown.append(Row(value=words, of="which one", **of))
    return shown


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("domain", choices=SETTINGS)
    parser.add_argument("input", type=Path, help="raw files of the domain")
    parser.add_argument("--preset", help="another size of the model")
    parser.add_argument("--steps", type=int, help="another number of steps")
    options = parser.parse_args()
    name, changes = options.domain, {"preset": options.preset, "max_steps": options.steps}
    with tempfile.TemporaryDirectory() as folder:
        found = trained(
            name,
            options.input.resolve(),
            Path(folder),
            {key: value for key, value in changes.items() if value is not None},
        )
    seconds, train = found["seconds"], found["settings"]["train"]
    suffix, more = (f"_{options.preset}", f", preset {options.preset}") if options.preset else ("", "")
    save(
        options.out,
        f"training_{name}{suffix}",
        f"{TITLES[name]}{more}",
        rows(name, found),
        facts=(
            "rows for training {train:,}, in the test split {test:,}, read once".format(**found["convert"]),
            f"preset {train['preset']}, {found['train']['steps']:,} steps",
            "conversion {convert} s, training {train} s, test {evaluate} s".format(**seconds),
            f"workers {load_machine().workers}",
        ),
        details={key: found[key] for key in ("seconds", "test", "curves", "tables", "settings")},
    )


if __name__ == "__main__":
    main()
