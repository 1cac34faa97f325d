"""Training without some steps: numbers of the others, their batches and their losses are as with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import outofcore
from outofcore.errors import ParamsError
from outofcore.training.loop import _Run
from tests.inspect.test_diff import game
from tests.training.runs import train
from tests.training.small import columns, section


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
        made[self.progress.step + 1] = rate, batch["target"].tolist()
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


@pytest.mark.parametrize("skip", [[], [15]], ids=["all steps", "without step 15"])
def test_a_step_has_its_number_on_any_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skip: list[int]) -> None:
    """The row left over of 1,001 is step 11 of an epoch on one rank, and in the batch of step 10 on two."""
    rows = {name: values.numpy() for name, values in columns(1001, 1).items()}
    rows["row"] = np.arange(1001)
    outofcore.write_store(tmp_path / "rows.zarr", rows, chunk_rows=16, shard_rows=64)
    one_step, made = _Run._step, dict[int, list[int]]()

    def step(self: Any, batch: dict[str, torch.Tensor]) -> float:
        made[self.progress.step + 1] = batch["row"].tolist()
        return one_step(self, batch)

    def steps(rank: int, world: int) -> dict[int, list[int]]:
        """Rows of each step in training, as the loader traces them at the end."""
        made.clear()
        out, settings = tmp_path / f"{world}.{rank}", section(epochs=2, batch_size=100, skip=skip)
        with outofcore.loader(tmp_path / "rows.zarr", "train", 100, rank=rank, world_size=world) as batches:
            _, figures = train(out, train_loader=batches, settings=settings)
            for number, part in made.items():
                assert set(part) <= {origin.row for origin in batches.trace(0, number)}
        assert figures["steps"] == 22
        return dict(made)

    monkeypatch.setattr(_Run, "_step", step)
    alone, first, second = steps(0, 1), steps(0, 2), steps(1, 2)
    assert sorted(alone) == [number for number in range(1, 23) if number not in skip]
    assert sorted(first) == sorted(second) == [number for number in alone if number not in (11, 22)]
    for number in first:
        joined = alone[number + 1] if number in (10, 21) else []
        assert sorted(first[number] + second[number]) == sorted(alone[number] + joined)
