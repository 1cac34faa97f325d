"""A training from a store alone: the model of a project's stage, its refusals, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import outofcore
from outofcore.cli import app
from outofcore.errors import ParamsError
from outofcore.params import load_params
from outofcore.training.run import MARK
from tests.samples import ROOT

pytestmark = pytest.mark.xdist_group("report")


def test_it_is_the_training_of_a_project_and_resumes(project: Path, tmp_path: Path) -> None:
    """The weights after two steps equal those of a run by the project's section, in two parts."""
    store, params = project / "data/stores/chess.zarr", ROOT / "params.yaml"
    section = load_params(params).section("chess")
    settings = {
        "train": {**section.train.model_dump(mode="json"), "max_steps": 2, "val_examples": 8, "arithmetic": "native"}
    }
    lines: list[str] = []
    whole = outofcore.train(store, tmp_path / "whole", params=params, tell=lambda *more: lines.extend(more), **settings)
    assert whole["steps"] == 2
    assert any("residency" in line for line in lines)
    assert whole == json.loads((tmp_path / "whole/metrics/chess/train.json").read_text())
    given = {name: value for name, value in settings["train"].items() if name != "max_steps"}
    outofcore.train(store, tmp_path / "defaults", max_steps=2, tensors=section.tensors.model_dump(mode="json"), **given)
    one, other = (
        torch.load(tmp_path / name / "models/chess/model.pt", weights_only=True)["model"]
        for name in ("whole", "defaults")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    rows = {name: values[:1] for name, values in outofcore.open_store(store).rows("train").read(0, 1).items()}
    batch = outofcore.load_model(tmp_path / "whole/models/chess").reading(rows, np.zeros(1, np.uint64))
    assert batch["planes"].shape[0] == 1


def test_a_model_reads_raw_files_as_its_store_was_read(project: Path, tmp_path: Path) -> None:
    """A store of standard games alone: its model predicts no others."""
    raw = project / "data/sample/chess"
    outofcore.convert("chess", raw, tmp_path / "a.zarr", filters={"variants": ["standard"], "unknown_elo": "keep"})
    outofcore.train(tmp_path / "a.zarr", tmp_path / "run", max_steps=1, batch_size=8, val_examples=8)
    standard = '[Event "a"]\n[Result "1-0"]\n\n1. e4 e5 2. Nf3 1-0\n\n'
    start = "bbqnnrkr/pppppppp/8/8/8/8/PPPPPPPP/BBQNNRKR w HFhf - 0 1"
    other = f'[Event "b"]\n[Variant "Chess960"]\n[SetUp "1"]\n[FEN "{start}"]\n[Result "1-0"]\n\n1. e4 e5 1-0\n'
    (tmp_path / "both.pgn").write_text(standard + other)
    model = outofcore.load_model(tmp_path / "run/models/chess")
    assert [row["played"] for row in model.predict(tmp_path / "both.pgn")] == ["e4", "e5", "Nf3", ""]


def test_the_command_trains_text_in_place_of_an_earlier_model(project: Path, tmp_path: Path) -> None:
    (tmp_path / "out/metrics/text").mkdir(parents=True)
    (tmp_path / "out" / MARK).touch()
    (tmp_path / "out/metrics/text/test.json").write_text("{}")  # figures of that model
    words = ["train", str(project / "data/stores/text.zarr"), str(tmp_path / "out"), "-S", "max_steps=1"]
    ended = CliRunner().invoke(
        app, [*words, "-S", "seq_len=16", "-S", "train.batch_size=4", "-S", "val_examples=4", "--json"]
    )
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(ended.stdout)["steps"] == 1
    assert (tmp_path / "out/models/text/model.pt").exists()
    assert not (tmp_path / "out/metrics/text/test.json").exists()


def test_mistakes_are_one_line(project: Path, tmp_path: Path) -> None:
    store = project / "data/stores/chess.zarr"
    outofcore.write_store(tmp_path / "own.zarr", {"x": np.zeros((8, 2))})
    np.save(tmp_path / "ids.npy", np.arange(100, dtype=np.uint16))
    for given, settings, message in (
        (store, {"maks_steps": 1}, "unknown key chess.train.maks_steps; did you mean 'max_steps'"),
        (store, {"max_steps": "many"}, "chess.train.max_steps"),
        (store, {"mode": "stream"}, "expected no setting 'mode'"),
        (store, {"device": "abacus"}, "abacus"),
        (tmp_path / "own.zarr", {}, "expected a sealed store of chess, go, neural, text, got 'arrays'"),
        (tmp_path / "ids.npy", {}, r"got data without a seal; .* convert' made; .* outofcore\.loader\('.*ids\.npy', "),
    ):
        with pytest.raises(ParamsError, match=message) as refused:
            outofcore.train(given, tmp_path / "out", **settings)
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(project: Path, tmp_path: Path) -> None:
    """Of a model of the same name, curves of DVCLive, a file, a link that leads nowhere: the same bytes after it."""
    store = project / "data/stores/chess.zarr"
    others = {"models/chess/model.pt": b"mine", "plots/chess/train/metrics/loss.tsv": b"step\tloss\n", "notes.txt": b""}
    for name, content in others.items():
        out = tmp_path / name.replace("/", "-")
        (out / name).parent.mkdir(parents=True)
        (out / name).write_bytes(content)
        with pytest.raises(ParamsError, match=r"expected a new or empty folder.*nothing was touched"):
            outofcore.train(store, out, max_steps=1)
        assert [path for path in out.rglob("*") if path.is_file()] == [out / name]
        assert (out / name).read_bytes() == content
    for out in (tmp_path / "file", tmp_path / "link"):
        out.symlink_to(tmp_path / "nowhere") if out.name == "link" else out.write_text("mine")
        with pytest.raises(ParamsError, match="expected a new or empty folder"):
            outofcore.train(store, out, max_steps=1)
    assert not (tmp_path / "nowhere").exists()
