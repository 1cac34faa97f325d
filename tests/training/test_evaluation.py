"""The test split with a trained model: the same figures as validation, and intervals that hold what they say."""

from __future__ import annotations

import json
import math
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from scipy import stats
from typer.testing import CliRunner

import outofcore
from outofcore import stages
from outofcore.cli import app
from outofcore.errors import ParamsError, StoreError
from outofcore.pipeline import convert
from outofcore.store.reader import open_store
from outofcore.training import evaluation
from outofcore.training.evaluation import GROUPS, evaluate, interval, t_quantile
from outofcore.training.results import split_digest
from tests.cases import long_cases
from tests.samples import ROOT
from tests.trained import copy_trained
from tests.training.small import ListLoader, WeightedRegression, columns

SAMPLES, EACH = 120, 4  # samples, and those of a sequence


def found(batch_size: int = 16, sequences: int = SAMPLES // EACH, **options: Any) -> dict[str, Any]:
    tensors = columns(SAMPLES, 3) | {"sequence": torch.arange(SAMPLES) * sequences // SAMPLES}
    return evaluate(WeightedRegression(), ListLoader(tensors, batch_size, shuffle=False), [sequences], **options)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 15, 63])
def test_quantiles_are_those_of_student(freedom: int) -> None:
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-3)


def test_of_a_mean_it_is_the_interval_of_every_textbook() -> None:
    values = np.random.default_rng(1).normal(size=12)
    without = [float(np.delete(values, place).mean()) for place in range(len(values))]
    expected = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    assert interval(float(values.mean()), without) == pytest.approx(expected, rel=1e-3)


def test_counts_and_what_needs_every_group_have_none() -> None:
    assert interval(12.0, [11.0, 8.0, 5.0]) is None
    assert interval(0.5, [0.4, math.nan, 0.6]) is None
    assert interval(0.25, [0.25, 0.25]) is None
    assert interval(1.0, [1.0, 0.5]) is not None


def test_intervals_of_shares_end_at_0_and_1(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = found(sequences=2)  # of two groups: 12.7 standard errors
    monkeypatch.setattr(WeightedRegression, "shares", ("err",))
    cut = found(sequences=2)
    assert plain["low"]["error"] < 0 == cut["low"]["error"]
    assert cut["high"]["error"] == min(plain["high"]["error"], 1)


def test_batches_change_nothing() -> None:
    whole = found(SAMPLES)
    assert whole["low"]["error"] < whole["error"] < whole["high"]["error"]
    assert "weight" not in whole["low"]  # a count
    for other in (found(16), found(7), found(50, micro_batch=3)):
        assert other == {**whole, "low": pytest.approx(whole["low"]), "high": pytest.approx(whole["high"])}


def test_samples_of_one_sequence_count_as_one() -> None:
    """The same samples, each four times: equal figures, and as much is known of them as of each once."""
    once, number = columns(SAMPLES, 3), torch.arange(SAMPLES)
    repeated = {key: tensor.repeat_interleave(EACH, 0) for key, tensor in once.items()}
    alone, together = (
        evaluate(WeightedRegression(), ListLoader(tensors, 16, shuffle=False), [SAMPLES])
        for tensors in ({**once, "sequence": number}, {**repeated, "sequence": number.repeat_interleave(EACH)})
    )
    for side in ("low", "high"):
        assert together[side]["error"] == pytest.approx(alone[side]["error"], rel=1e-5)
    assert "low" not in found(sequences=1)


def test_large_sums_make_fewer_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    many = found()
    monkeypatch.setattr(evaluation, "HELD_BYTES", 1)
    few = found()
    assert few["error"] == many["error"]
    assert few["high"]["error"] - few["low"]["error"] > many["high"]["error"] - many["low"]["error"]


def test_many_sequences_are_taken_in_groups_of_neighbours() -> None:
    count = 4 * GROUPS
    tensors = columns(count, 3)
    grouped = {**tensors, "sequence": torch.arange(count) // 4}
    loaders = [
        (ListLoader({**tensors, "sequence": torch.arange(count)}, 32, shuffle=False), [count]),
        (ListLoader(grouped, 32, shuffle=False), [GROUPS]),
        (ListLoader(tensors, 4, shuffle=False), [GROUPS]),  # without sequences a batch is one
    ]
    first, *others = [evaluate(WeightedRegression(), loader, counts) for loader, counts in loaders]
    for other in others:
        assert other == first


def test_no_sample_no_figure() -> None:
    assert evaluate(WeightedRegression(), [], [0]) == {}


@pytest.mark.xdist_group("report")
@pytest.mark.parametrize("name", ["chess", *long_cases("go", "neural", "text")])
def test_every_domain_has_all_figures_of_its_validation(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    trained = copy_trained(project, name, tmp_path)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params[name]["train"] |= {"max_steps": 4, "arithmetic": "native"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTOFCORE_DEVICE", "cpu")
    val = outofcore.evaluate(f"models/{name}", f"data/stores/{name}.zarr", split="val")
    stages.evaluate(name)
    test = json.loads(Path(f"metrics/{name}/test.json").read_text())
    quality = {key: value for key, value in trained.items() if key not in ("steps", "parameters")}
    assert {key: val[key] for key in quality} == pytest.approx(quality, abs=2e-6)
    assert test["test_digest"] != val["val_digest"]
    assert test["low"].keys() == test["high"].keys() <= quality.keys()
    assert test["low"]


@pytest.mark.xdist_group("report")
def test_a_model_of_other_params_is_one_line(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_trained(project, "chess", tmp_path)
    (tmp_path / "params.yaml").write_text(
        (ROOT / "params.yaml").read_text().replace("planes: 18", "planes: 12").replace("portable", "native")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["evaluate.py", "chess"])
    for _ in range(2):
        with pytest.raises(SystemExit):
            runpy.run_path(str(ROOT / "stages/evaluate.py"), run_name="__main__")
        assert capsys.readouterr().err == (
            "error: models/chess/model.pt: expected the model of these params and this store, got another or none; run "
            "'dvc repro'\n"
        )
        shutil.rmtree(tmp_path / "models/chess", ignore_errors=True)


def write_games(project: Path, raw: Path) -> None:
    """Some games of the sample."""
    raw.mkdir()
    games = (project / "data/sample/chess/games.pgn").read_text().split("[Event ")
    (raw / "games.pgn").write_text("[Event ".join(games[:81]))


@pytest.mark.xdist_group("report")
def test_a_fixed_store_takes_the_place_of_the_own_test_split(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_trained(project, "chess", tmp_path)
    write_games(project, tmp_path / "raw")
    convert("chess", tmp_path / "raw", tmp_path / "fixed.zarr", splits={"test": 0.5}, audit={"records": 1})
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTOFCORE_DEVICE", "cpu")

    def evaluated(store: str | None) -> dict[str, Any]:
        params["chess"] |= {"evaluate": store, "train": params["chess"]["train"] | {"arithmetic": "native"}}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
        stages.evaluate("chess")
        found: dict[str, Any] = json.loads(Path("metrics/chess/test.json").read_text())
        return found

    own, fixed = evaluated(None), open_store("fixed.zarr")
    figures = evaluated("fixed.zarr")
    assert figures["test_digest"] == split_digest(fixed, "test") != own["test_digest"]
    assert figures["sequences"] == len(fixed.sequences("test"))
    assert figures["top1"] != own["top1"]
    assert evaluated("data/stores/chess.zarr") == own
    with pytest.raises(StoreError, match="differ in domain"):
        evaluated(str(project / "data/stores/go.zarr"))


@pytest.mark.xdist_group("report")
def test_the_command_gives_the_same_figures_without_a_project(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_games(project, tmp_path / "raw")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTOFCORE_DEVICE", "cpu")
    for seed in (0, 1):
        convert("chess", "raw", f"{seed}.zarr", audit={"records": 1}, splits={"seed": seed, "test": 0.2})
    outofcore.train("0.zarr", "run", preset="small", max_steps=2)
    files = sorted(tmp_path.rglob("*"))

    def told(*words: str) -> str:
        ended = CliRunner().invoke(app, ["evaluate", *words])
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    own, other = (json.loads(told("run", "0.zarr", *more, "--json")) for more in ((), ("1.zarr",)))
    assert own == outofcore.evaluate("run", "0.zarr")
    assert own["sequences"] == len(open_store("0.zarr").sequences("test"))
    assert other["test_digest"] == split_digest(open_store("1.zarr"), "test") != own["test_digest"]
    assert other["model"] == own["model"]
    assert f"Top 1: {own['top1']:.4g} (95 %: " in told("run", "0.zarr")
    assert sorted(tmp_path.rglob("*")) == files
    with pytest.raises(ParamsError, match=r"^1\.zarr: expected the store that run/.*/model\.pt was trained on"):
        outofcore.evaluate("run", "1.zarr")
    with pytest.raises(ParamsError, match="split: expected one of"):
        outofcore.evaluate("run", "0.zarr", split="tset")
