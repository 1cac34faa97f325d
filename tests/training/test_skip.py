"""Training without some steps: numbers of the others, their batches and their losses are as with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import outofcore
from outofcore.errors import ParamsError
from outofcore.training.loop import _Run
from tests.inspect.test_diff import game


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skip")
    (folder / "a.pgn").write_text("".join(map(game, range(60))))
    outofcore.convert("chess", folder / "a.pgn", folder / "a.zarr", store={"chunk_rows": 64, "shard_rows": 256})
    return folder / "a.zarr"


def steps(store: Path, out: Path, monkeypatch: pytest.MonkeyPatch, **train: Any) -> dict[int, tuple[float, list[int]]]:
    """Learning rate and moves of the batch of each step that is made."""
    made: dict[int, tuple[float, list[int]]] = {}
    whole = _Run._step

    def step(self: Any, batch: dict[str, torch.Tensor]) -> float:
        rate = whole(self, batch)
        made[self.progress.step] = rate, batch["target"].tolist()
        return rate

    monkeypatch.setattr(_Run, "_step", step)
    given = {"preset": "test", "batch_size": 64, "epochs": 3, "val_examples": 64, "schedule": "cosine", **train}
    figures = outofcore.train(store, out, train=given, device="cpu")
    assert figures["steps"] == train.get("max_steps", figures["steps"])
    monkeypatch.undo()
    return made


def test_steps_are_left_out_and_keep_their_numbers(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(outofcore.loader(store, "train", 64))
    whole = steps(store, tmp_path / "whole", monkeypatch)
    assert list(whole) == list(range(1, 3 * count + 1))
    skip = [2, [count, count + 1], 3 * count]
    others = steps(store, tmp_path / "others", monkeypatch, skip=skip)
    left_out = {2, count, count + 1, 3 * count}
    assert others == {step: values for step, values in whole.items() if step not in left_out}
    record = torch.load(tmp_path / "others/models/chess/model.pt", weights_only=True)
    assert f'"skip": [2, [{count}, {count + 1}], {3 * count}]' in record["identity"]


def test_steps_after_the_end_change_nothing(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = steps(store, tmp_path / "whole", monkeypatch, max_steps=4)
    assert steps(store, tmp_path / "others", monkeypatch, max_steps=4, skip=[5, [100, 200]]) == whole


@pytest.mark.parametrize("skip", [[0], [[3, 2]], [[1, 2, 3]], ["1"], 5])
def test_steps_that_are_none_are_refused(store: Path, tmp_path: Path, skip: Any) -> None:
    with pytest.raises(ParamsError, match=r"train\.skip|skip: a range"):
        outofcore.train(store, tmp_path / "out", train={"skip": skip}, device="cpu")
