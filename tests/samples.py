"""What a project's folder holds after a run, made without training."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import yaml

from outofcore.conversion.estimate import estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.raw.files import find_files

ROOT = Path(__file__).parents[1]


def write_sample(name: str, folder: Path, seed: int) -> None:
    """The sample input of a domain, which takes seconds, made once in a process for each seed."""
    for path, content in sample_files(name, seed).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)


@cache
def sample_files(name: str, seed: int) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        get_domain(name).sample(Path(folder), np.random.default_rng(seed))
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def convert_sample(project: Path, name: str) -> None:
    """Sample input, store, table of rejects and figures of one domain."""
    params, raw = yaml.safe_load((ROOT / "params.yaml").read_text())[name], project / "data" / "sample" / name
    raw.mkdir(parents=True)
    domain = get_domain(name)
    write_sample(name, raw, 1)
    params["raw"] = str(raw)
    if name == "text":
        params["tokenizer"]["path"] = str(project / "text.json")
    section = domain.section.model_validate(params)
    files = find_files(section.raw, section.match, domain.suffixes, section=name)
    if name == "text":
        (project / "text.json").write_text(make_tokenizer(section, files), encoding="utf-8")
    with open_executor("threads", 2) as executor:
        forecast = estimate(domain, section, files, executor)
    outcome = Conversion(
        domain, section, files, project / f"data/stores/{name}.zarr", project / f"data/rejects/{name}.csv"
    ).run(
        forecast,
        executor=open_executor("threads", 2),
        workers=2,
        watch=lambda *_: None,
    )
    write_json(project / "metrics" / name / "convert.json", outcome.figures)


def write_json(path: Path, figures: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures))


def write_project(folder: Path) -> None:
    """All domains converted; chess also trained, by the files that training leaves."""
    for name in DOMAINS:
        convert_sample(folder, name)
    chess = folder / "metrics" / "chess"
    write_json(
        chess / "train.json",
        {
            "steps": 20,
            "top1": 0.25,
            "top1_most_frequent": 0.125,
            "policy_loss": 3.5,
            "val_digest": "1f" * 8,
            "model": "5b" * 8,
        },
    )
    ends = {"low": {"top1": 0.1, "top1_most_frequent": 0.05}, "high": {"top1": 0.3, "top1_most_frequent": 0.2}}
    write_json(
        chess / "test.json",
        {"top1": 0.2, "top1_most_frequent": 0.1, **ends, "sequences": 16, "test_digest": "2e" * 8, "model": "5b" * 8},
    )
    curves = folder / "plots" / "chess"
    for path, values in {
        "train/loss": (8.0, 4.0, 3.0),
        "val/top1": (0.1, 0.2, 0.25),
        "val/top1_most_frequent": (0.125,) * 3,
    }.items():
        file = curves / f"{path}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = "".join(f"{step}\t{value}\n" for step, value in zip((1, 10, 20), values, strict=True))
        file.write_text(f"step\t{file.stem}\n{rows}")
    (folder / "plots" / "chess" / "accuracy_by_ply.csv").write_text("ply,top1,positions\n0,0.25,160\n10,0.5,160\n")
    (folder / "models" / "chess").mkdir(parents=True)
    (folder / "models" / "chess" / "sample.txt").write_text("1. e4 <e5> & so on\n")
