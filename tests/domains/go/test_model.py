"""Learning the next move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from outofcore.domains.boards.params import PRESETS
from outofcore.domains.go import DOMAIN
from outofcore.domains.go.model import PolicyNetwork, PolicyTask, count_moves
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.predict import predict
from outofcore.domains.go.tensors import GoReading
from outofcore.domains.go.widening import tables
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
    for _ in range(15):
        loss, count = task.loss(batch)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
        losses.append(loss.item() / count.item())
    assert losses[-1] < 0.8 * losses[0]


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
        shares = task.predict(batch)[0][small].softmax(1)[:, :-1].reshape(-1, 19, 19)
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
    with torch.device("meta"):
        network = PolicyNetwork(18, 19, PRESETS[preset])
        assert network(torch.zeros(2, 18, 19, 19), None)[0].shape == (2, 362)


def test_predictions_are_averaged_over_the_symmetries_and_turn_with_the_board(
    store: Store, store_section: GoSection
) -> None:
    task, reading = make(store, store_section, features="planes3", value=True, symmetries=True)
    torch.nn.init.normal_(task.network.tower.point)
    index = np.arange(0, len(store.rows("train")), 97)[:12]
    rows = {name: store.rows("train")[name].read()[index] for name in reading.fields}
    rows |= {"winner": np.ones(len(index)), "result": np.ones(len(index)), "margin": np.full(len(index), np.nan)}
    batches = [reading(rows, np.full(len(index), symmetry, np.uint64)) for symmetry in range(8)]
    with torch.no_grad():
        predictions = [predict(task, batch) for batch in batches]
    _, target = tables(reading.frame, reading.sizes)
    where = target[rows["state"][:, 1]].astype(np.int64)
    alone = torch.zeros_like(predictions[0]["move"])
    for symmetry in range(8):  # as the reading turns them
        on_board = torch.from_numpy(where[:, symmetry] >= 0)
        there = torch.from_numpy(where[:, symmetry]).clamp(0)
        turned = predictions[symmetry]["move"].gather(1, there) * on_board
        torch.testing.assert_close(turned, predictions[0]["move"] * on_board, atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(predictions[symmetry]["value"], predictions[0]["value"])
        torch.testing.assert_close(predictions[symmetry]["score"], predictions[0]["score"])
        alone += task.predict(batches[symmetry])[0].softmax(1).gather(1, there) * on_board / 8
    torch.testing.assert_close(alone, predictions[0]["move"], atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(predictions[0]["move"].sum(1), torch.ones(len(index)))


def test_the_outcome_is_learnt_where_it_is_known(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section, features="planes3", value=True)
    rows = {name: store.rows("train")[name].read()[:3] for name in reading.fields}
    known = {"winner": np.array([1, -1, 0]), "result": np.array([1, 2, 0]), "margin": np.array([4.5, np.nan, np.nan])}
    batch = reading({**rows, **known}, np.zeros(3, np.uint64))
    _, value, score = (each.detach().numpy() for each in task.predict(batch))
    sums = {name: float(total.detach().sum()) for name, total in task.evaluate(batch).items()}
    sign = 1 - 2 * rows["state"][:, 0].astype(np.float64)
    wanted = sign[:2] * [1, -1]
    assert sums["values"] == sums["won"] == 2
    assert sums["scores"] == 1
    assert sums["value_loss"] == pytest.approx(((value[:2] - wanted) ** 2).sum(), rel=1e-5)
    assert sums["score_error"] == pytest.approx(abs(score[0] - sign[0] * 4.5), rel=1e-5)
    assert sums["winner"] == (np.sign(value[:2]) == wanted).sum()
    figures = task.summarize({name: total.detach() for name, total in task.evaluate(batch).items()})
    assert figures["value_loss_constant"] == 1
    assert figures["score_error_constant"] == 4.5
    off = abs(score[0] - sign[0] * 4.5) / 20
    huber = off**2 / 2 if off < 1 else off - 0.5
    policy = -task.predict(batch)[0].detach().log_softmax(1)[torch.arange(3), batch["move"]].sum()
    loss = float(policy) + sums["value_loss"] + huber
    assert float(task.loss(batch)[0].detach()) == pytest.approx(loss, rel=1e-5)
    assert figures["loss"] == pytest.approx(loss / 3, rel=1e-5)
    assert figures["policy_loss"] == pytest.approx(float(policy) / 3, rel=1e-5)
    assert "policy_loss_frequencies" in figures
