"""What a user of the text stages sees: training without a store, a given tokenizer, a training that is stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from outofcore.store.reader import open_store
from tests.pipeline.conftest import Project, copy_project

pytestmark = [pytest.mark.xdist_group("pipeline of text"), pytest.mark.timeout(900)]

GIVEN = "data/tokenizers/given"
SMALL = {"max_steps": 6, "preset": "test", "sample_tokens": 4}
STEPS = 24  # fewer than the text has, and enough to be stopped midway


def made(folder: Path, mode: str) -> tuple[Project, str]:
    """The project after ``dvc repro train@text`` with few steps, committed, and what that printed; tests copy it."""
    project = copy_project(folder / "text")
    params = yaml.safe_load(project.read("params.yaml"))
    params["text"]["mode"] = mode
    params["text"]["train"] |= SMALL | {"val_examples": 64}
    params["text"]["stream"] |= {"max_examples": 400, "shuffle_windows": 512}
    if mode == "stream":
        params["text"]["train"]["max_steps"] = STEPS
    (project.folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    told = project.dvc("repro", "train@text")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "ran")
    return project, told


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """With a store."""
    return made(tmp_path_factory.mktemp("pipeline"), "store")[0]


@pytest.fixture
def project(trained: Project, tmp_path: Path) -> Project:
    """A copy of it, with its cache."""
    return copy(trained, tmp_path / "text")


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Without one."""
    project, told = made(tmp_path_factory.mktemp("streamed"), "stream")
    assert ran(told) == {"sample@text", "check@text", "tokenizer", "convert@text", "train@text"}
    return project


def copy(project: Project, folder: Path) -> Project:
    shutil.copytree(project.folder, folder, symlinks=True)
    return Project(folder)


def train_in(project: Project, mode: str) -> str:
    """Train in a mode; what that printed."""
    return project.dvc("exp", "run", "-S", f"text.mode={mode}", "-S", f"text.train.max_steps={STEPS}", "train@text")


def ran(told: str) -> set[str]:
    """Names of the stages that DVC ran."""
    return {line.split("'")[1] for line in told.splitlines() if line.startswith("Running stage '")}


def set_param(project: Project, *path: Any) -> None:
    """Change a setting of text, given by its keys, to the last value, as a user does, in an editor."""
    *tables, key, value = path
    params = yaml.safe_load(project.read("params.yaml"))
    table = reduce(getitem, tables, params["text"])
    assert table[key] != value
    table[key] = value
    (project.folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))


def test_a_model_is_trained_straight_from_raw_text(streamed: Project, tmp_path: Path) -> None:
    project = copy(streamed, tmp_path / "text")
    catalogue = open_store(project.folder / "data" / "stores" / "text.zarr")
    assert sum(len(catalogue.rows(split)) for split in catalogue.splits) == 0
    raw = project.folder / "data" / "sample" / "text"
    listed = catalogue.sources.read()
    assert sorted(listed["name"].tolist()) == sorted(path.name for path in raw.iterdir())
    read = json.loads(project.read("metrics/text/stream_run.json"))
    assert read["found"] == read["accepted"] + sum(read["rejected"].values()) > 300
    figures = json.loads(project.read("metrics/text/train.json"))
    assert figures["steps"] == STEPS
    assert figures["loss"] < 7

    assert ran(project.dvc("repro", "train@text")) == set()
    # What a store would be made with is checked and changes nothing; what the stream is made of does.
    for *keys, value, expected in (
        ("store", "codec", "lz4", {"check@text"}),
        ("stream", "shuffle_windows", 300, {"check@text", "convert@text"}),
        ("train", "learning_rate", 0.02, {"check@text", "train@text"}),
    ):
        before = project.read("params.yaml")
        set_param(project, *keys, value)
        assert ran(project.dvc("repro", "--dry", "train@text")) == expected, keys
        (project.folder / "params.yaml").write_text(before)
    set_param(project, "mode", "store")
    assert ran(project.dvc("repro", "--dry", "convert@text")) == {"check@text", "convert@text"}
    (project.folder / "params.yaml").write_text(before)
    letter = (raw / "letter1.txt").read_text()
    (raw / "letter1.txt").unlink()  # it may be a hard link into the cache
    (raw / "letter1.txt").write_text(f"{letter}And one more line.\n")
    assert ran(project.dvc("repro", "-s", "convert@text")) == {"convert@text"}
    assert ran(project.dvc("repro", "--dry", "-s", "train@text")) == {"train@text"}


@pytest.mark.long
def test_another_tokenizer_reruns_what_depends_on_it(project: Project) -> None:
    before = json.loads(project.read("metrics/text/convert.json"))
    given = project.folder / GIVEN / "tokenizer.json"
    shutil.copy(project.folder / "data/tokenizers/text.json", given)
    told = project.dvc("exp", "run", "-S", "text.tokenizer.kind=file", "train@text")
    assert ran(told) == {"check@text", "tokenizer"}  # the same tokenizer: nothing else has changed
    content = json.loads(given.read_text())
    del content["model"]["merges"][-200:]
    given.write_text(json.dumps(content))
    assert ran(project.dvc("repro", "convert@text")) == {"tokenizer", "convert@text"}
    assert ran(project.dvc("repro", "--dry", "train@text")) == {"train@text"}
    after = json.loads(project.read("metrics/text/convert.json"))
    assert after["found"] == before["found"]
    assert after["tokens"] > before["tokens"]
    given.write_text("[]")
    assert "text.tokenizer.given: " in project.dvc("repro", "train@text", code=255)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["store", "stream"])
def test_a_training_that_is_stopped_goes_on_with_the_next_batch(
    trained: Project, streamed: Project, tmp_path: Path, mode: str
) -> None:
    project = copy(streamed if mode == "stream" else trained, tmp_path / "text")
    if mode == "store":
        train_in(project, mode)
    whole = weights(project)
    shutil.rmtree(project.folder / "models")
    shutil.rmtree(project.folder / "plots" / "text")
    (project.folder / "metrics/text/train_run.json").unlink(missing_ok=True)
    curve = project.folder / "plots/text/train/loss.tsv"
    command = [sys.executable, "stages/train.py", "text"]
    with subprocess.Popen(command, cwd=project.folder, env=project.environment(), stderr=subprocess.PIPE) as process:
        while process.poll() is None and (not curve.exists() or curve.read_text().count("\n") < 5):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 130
    assert not (project.folder / "models/text/model.pt").exists()
    project.run("python", "stages/train.py", "text")
    assert json.loads(project.read("metrics/text/train_run.json"))["resumed_from_step"] >= 3
    assert weights(project) == whole


def weights(project: Project) -> str:
    """A digest of the trained weights."""
    content = torch.load(project.folder / "models/text/model.pt", weights_only=True)["model"]
    return hashlib.sha256(b"".join(content[name].numpy().tobytes() for name in sorted(content))).hexdigest()
