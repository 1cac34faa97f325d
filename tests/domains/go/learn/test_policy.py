"""Learning the next move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from outofcore.domains.boards.tower import PRESETS
from outofcore.domains.go import DOMAIN
from outofcore.domains.go.learn.policy import PolicyNetwork, PolicyTask, count_moves
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.tensors import GoReading
from outofcore.domains.reading import reading_for
from outofcore.store.reader import Store

pytestmark = pytest.mark.usefixtures("one_thread")


def make(store: Store, section: GoSection, **tensors: Any) -> tuple[PolicyTask, GoReading]:
    section = GoSection.model_validate({**section.model_dump(), "tensors": tensors})
    torch.manual_seed(0)
    task, reading = DOMAIN.task(store, section), DOMAIN.reading(store.attributes, section)
    assert isinstance(task, PolicyTask)
    assert isinstance(reading, GoReading)
    return task, reading


def batch_of(store: Store, reading: GoReading, split: str, start: int, stop: int) -> dict[str, torch.Tensor]:
    index = np.arange(start, stop)
    if reading.reach > 1:
        index = np.maximum(index[:, None] + np.arange(1 - reading.reach, 1), 0)
    rows = {name: store.rows(split)[name].read()[index] for name in reading.fields}
    return reading(rows, np.zeros(len(rows["move"]), np.uint64))


def test_learns(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section, features="planes3")
    batch = batch_of(store, reading, "train", 0, 64)
    optimizer = torch.optim.AdamW(task.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        loss, count = task.loss(batch)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
        losses.append(loss.item() / count.item())
    assert losses[-1] < 0.6 * losses[0]


def test_loss_and_figures_add_up_over_any_pieces(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section)
    batch = batch_of(store, reading, "val", 0, 300)
    with torch.no_grad():
        whole, count = task.loss(batch)
        pieces = [task.loss(piece) for piece in task.micro_batches(batch, 70)]
        assert int(count) == 300 == sum(int(number) for _, number in pieces)
        assert float(whole) == pytest.approx(sum(float(loss) for loss, _ in pieces), rel=1e-5)
        sums = task.evaluate(batch)
        parts = [task.evaluate(piece) for piece in task.micro_batches(batch, 70)]
    for name, value in sums.items():
        total = torch.stack([part[name].double() for part in parts]).sum(0)
        assert torch.allclose(value.double(), total, rtol=1e-5)
    figures = task.summarize(sums)
    assert figures["positions"] == 300
    assert 0 <= figures["top1"] <= figures["top5"] <= 1
    assert figures["loss"] == pytest.approx(float(whole) / 300, rel=1e-5)
    plot = task.plots(sums)["accuracy_by_move"]
    assert sum(float(row["positions"]) for row in plot) == 300


def test_the_most_frequent_move_is_the_baseline(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section)
    moves = store.rows("train")["move"].read()
    counts = count_moves(store, 19)
    assert counts.tolist() == np.bincount(moves, minlength=362).tolist()
    batch = batch_of(store, reading, "val", 0, 2000)
    with torch.no_grad():
        figures = task.summarize(task.evaluate(batch))
    best = np.argsort(-counts, kind="stable")[:5]
    assert figures["top1_most_frequent"] == pytest.approx((batch["move"].numpy() == best[0]).mean())
    assert figures["top5_most_frequent"] == pytest.approx(np.isin(batch["move"].numpy(), best).mean())


def test_no_move_outside_the_board(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section)
    batch = batch_of(store, reading, "val", 0, 1000)
    small = batch["on_board"].sum((1, 2)) == 81
    assert small.any()
    with torch.no_grad():
        shares = task.predict(batch)[small].softmax(1)[:, :-1].reshape(-1, 19, 19)
    assert float(shares[:, 9:].max()) == 0.0
    assert float(shares[:, :, 9:].max()) == 0.0


def test_what_the_loaders_are_told(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section, features="planes3", symmetries=True)
    assert task.loader_options() == {}
    assert reading.window is None
    assert reading_for("train", reading) is reading
    validation = reading_for("val", reading)
    assert isinstance(validation, GoReading)
    assert not validation.section.symmetries
    task, reading = make(store, store_section, features="alphagozero18")
    assert task.loader_options() == {}
    assert reading.window == {"length": 8, "mode": "reach"}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets(preset: str) -> None:
    if preset in ("medium", "large", "huge"):
        with torch.device("meta"):
            network = PolicyNetwork(18, 19, preset)
            assert network(torch.zeros(2, 18, 19, 19), None).shape == (2, 362)
    else:
        network = PolicyNetwork(3, 9, preset)
        assert network(torch.zeros(2, 3, 9, 9, dtype=torch.uint8), None).shape == (2, 82)
