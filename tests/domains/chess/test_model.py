from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import chess
import numpy as np
import pytest
import torch

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.chess.model import ChessTask, measure_baseline
from outofcore.domains.chess.moves import move_code, vocabulary
from outofcore.domains.chess.params import TensorSection
from outofcore.domains.chess.tensors import ChessReading
from outofcore.domains.reading import reading_for
from tests.domains.chess.positions import random_positions, stored_rows


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small lose time to a second thread, a lot of it where tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


POSITIONS = random_positions(400, seed=3)
ROWS = stored_rows(POSITIONS)


def batch_of(section: TensorSection, count: int = 400):
    rows = {name: column[:count] for name, column in ROWS.items()}
    return ChessReading(section)(rows, np.zeros(len(rows["move"]), np.uint64))


def task_of(section: TensorSection, counts: np.ndarray | None = None) -> ChessTask:
    size = vocabulary(section.targets).size
    torch.manual_seed(0)
    return ChessTask(section, BoardTrainSection(), np.zeros(size, np.int64) if counts is None else counts, 0.25)


def test_learns_to_play_the_only_legal_moves():
    section = TensorSection(planes=12, legal_mask=True)
    task, batch = task_of(section), batch_of(section, 64)
    optimizer = torch.optim.AdamW(task.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        loss, count = task.loss(batch)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
        losses.append(loss.item() / count.item())
    assert losses[-1] < 0.3 * losses[0]


def test_learns_what_players_of_a_rating_play():
    section = TensorSection(elo=True)
    task = task_of(section)
    start = vocabulary("uci").index[[move_code(chess.E2, chess.E4), move_code(chess.D2, chess.D4)]]
    rows = stored_rows([(chess.Board(), chess.Move.from_uci("e2e4"))] * 3)
    rows |= {"white_elo": np.array([0, 1140, 2550], np.int16), "black_elo": np.array([1140, 0, 2550], np.int16)}
    batch = ChessReading(section)(rows, np.zeros(3, np.uint64))
    batch["target"] = torch.from_numpy(start[[0, 1, 0]].astype(np.int64))
    optimizer = torch.optim.AdamW(task.parameters(), lr=3e-2)
    for _ in range(60):
        loss, _ = task.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # 1199 is in the bin of 1140; a rating that was never met says as little as one that is out of range.
    batch["elo"] = torch.tensor([[0, 1199], [1199, 0], [2500, 2599]])
    with torch.no_grad():
        assert torch.equal(task.predict(batch)[0].argmax(1), batch["target"])
        batch["elo"] = torch.tensor([[1800, 1800], [3999, 3999], [9999, 9999]])
        never = task.predict(batch)[0]
    assert torch.equal(never[0], never[1])
    assert torch.equal(never[1], never[2])


@pytest.mark.parametrize("targets", ["uci", "alphazero"])
@pytest.mark.parametrize("planes", [12, 18])
def test_loss_and_figures_add_up_over_any_pieces(targets, planes):
    section = TensorSection(planes=planes, targets=targets)
    task, batch = task_of(section).eval(), batch_of(section)
    with torch.no_grad():
        whole, count = task.loss(batch)
        pieces = [task.loss(piece) for piece in task.micro_batches(batch, 37)]
        sums = task.evaluate(batch)
        added = [task.evaluate(piece) for piece in task.micro_batches(batch, 37)]
    assert count == sum(n for _, n in pieces) == 400
    torch.testing.assert_close(sum(loss for loss, _ in pieces), whole, rtol=1e-5, atol=1e-2)
    for name, value in sums.items():
        torch.testing.assert_close(sum(piece[name] for piece in added), value, rtol=1e-5, atol=1e-2)


def test_moves_that_are_illegal_or_off_the_board_get_no_probability():
    section = TensorSection(legal_mask=True)
    task, batch = task_of(section), batch_of(section)
    with torch.no_grad():
        logits, value = task.predict(batch)
        without_mask, _ = task_of(TensorSection(targets="alphazero")).predict({"planes": batch["planes"]})
    probabilities = logits.softmax(1)
    assert (probabilities[~batch["legal"]] == 0).all()
    assert torch.allclose(probabilities.sum(1), torch.ones(400))
    assert (value.abs() <= 1).all()
    off_board = torch.from_numpy(vocabulary("alphazero").codes < 0)
    assert (without_mask.softmax(1)[:, off_board] == 0).all()


@pytest.mark.parametrize("targets", ["uci", "alphazero"])
def test_half_precision_predicts_alike(targets):
    section = TensorSection(targets=targets, legal_mask=True)
    task, batch = task_of(section), batch_of(section)
    with torch.no_grad():
        exact, count = task.loss(batch)
        with torch.autocast("cpu", torch.bfloat16):
            rounded, _ = task.loss(batch)
    assert (rounded / count).item() == pytest.approx((exact / count).item(), rel=0.02)


def mean(values: torch.Tensor) -> float:
    return values.double().mean().item()


def test_figures_stand_beside_their_baselines():
    section = TensorSection(view="white")
    moves = vocabulary("uci")
    batch = batch_of(section)
    counts = np.zeros(moves.size, np.int64)
    favourite = int(batch["target"].mode().values)
    counts[favourite] = 10
    task = task_of(section, counts).eval()
    with torch.no_grad():
        sums = task.evaluate(batch)
        logits, value = task.predict(batch)
    figures = task.summarize(sums)
    target, result = batch["target"], batch["value"]
    assert figures["positions"] == 400
    assert figures["top1"] == pytest.approx(mean(logits.argmax(1) == target))
    assert figures["top5"] == pytest.approx(mean((logits.topk(5).indices == target[:, None]).any(1)))
    assert figures["top1_most_frequent"] == pytest.approx(mean(target == favourite))
    assert figures["value_loss"] == pytest.approx(mean((value - result).square()), rel=1e-5)
    assert figures["value_loss_constant"] == pytest.approx(0.75**2)
    smoothed = (counts + 1) / (counts + 1).sum()
    assert figures["policy_loss_frequencies"] == pytest.approx(-np.log(smoothed[target]).mean(), rel=1e-5)
    opening = batch["ply"] < 20
    assert figures["top1_opening_most_frequent"] == pytest.approx(mean((target == favourite)[opening]))
    rows = task.plots(sums)["accuracy_by_ply"]
    assert sum(row["positions"] for row in rows) == 400
    assert [row["ply"] for row in rows] == sorted({min(ply // 10, 15) * 10 for ply in batch["ply"].tolist()})


def test_accuracy_by_the_elo_of_who_moves():
    section = TensorSection(view="mover")
    reading, draws = ChessReading(section, side=True), np.zeros(400, np.uint64)
    batch = reading(ROWS, draws)
    assert "to_move" not in batch_of(section)
    generator = np.random.default_rng(0)
    white, black = (generator.choice([0, 950, 1500, 1599, 2850, 9999], 400) for _ in range(2))
    batch |= {"white_elo": torch.from_numpy(white), "black_elo": torch.from_numpy(black)}
    favourite = int(batch["target"].mode().values)
    task = task_of(section, np.bincount([favourite], minlength=1968)).eval()
    with torch.no_grad():
        sums = [task.evaluate(piece) for piece in task.micro_batches(batch, 150)]
        hit = (task.predict(batch)[0].argmax(1) == batch["target"]).numpy()
    total = {name: sum(each[name] for each in sums) for name in sums[0]}
    turns = [board.turn for board, _ in POSITIONS]
    assert 0 < sum(turns) < 400
    elo = np.where(turns, white, black)
    expected = []
    for low, high in ((900, 1000), (1500, 1600), (2800, 2900), (3900, 10_000)):
        here = (elo >= low) & (elo < high)
        frequent = (batch["target"] == favourite).numpy()[here]
        expected.append(
            {
                "elo": low,
                "top1": pytest.approx(hit[here].mean(), abs=1e-6),
                "top1_most_frequent": pytest.approx(frequent.mean(), abs=1e-6),
                "positions": here.sum(),
            }
        )
    assert task.plots(total)["accuracy_by_elo"] == expected
    unknown = batch | {name: torch.zeros(400) for name in task.columns}
    with torch.no_grad():
        assert "accuracy_by_elo" not in task.plots(task.evaluate(unknown))


class Rows:
    """A table and its store, in memory."""

    variants = np.zeros(3, np.uint8)

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.fields = columns

    def __len__(self) -> int:
        return len(self.fields["move"])

    def blocks(self, rows: int, *names: str) -> Iterator[dict[str, np.ndarray]]:
        for start in range(0, len(self), rows):
            yield {name: self.fields[name][start : start + rows] for name in names}

    def rows(self, split: str) -> Rows:
        assert split == "train"
        return self

    def sequences(self, split: str) -> Rows:
        assert split == "train"
        return Rows({"move": np.zeros(3), "variant": self.variants})


@pytest.mark.parametrize("view", ["white", "mover"])
@pytest.mark.parametrize("at_once", [1 << 20, 7])
def test_the_baseline_counts_the_moves_and_averages_the_results_of_the_train_split(monkeypatch, view, at_once):
    monkeypatch.setattr("outofcore.domains.chess.model._ROWS_AT_ONCE", at_once)
    section = TensorSection(view=view)
    rows = {**ROWS, "result": np.resize(np.array([1, 0, -1, 1], np.int8), 400)}
    batch = ChessReading(section)(rows, np.zeros(len(rows["move"]), np.uint64))
    move_counts, value_mean = measure_baseline(Rows(rows), section)
    assert np.array_equal(move_counts, np.bincount(batch["target"], minlength=1968))
    assert value_mean == pytest.approx(mean(batch["value"]))


def test_the_baseline_reads_the_fields_of_the_value_if_a_batch_has_them_too():
    rows = {**ROWS, "position_evaluation": np.full(400, 1000, np.int16)}
    _, plain_mean = measure_baseline(Rows(rows), TensorSection(view="white", value="evaluation"))
    also = TensorSection(view="white", value="evaluation", fields=("evaluation", "mate"))
    assert measure_baseline(Rows(rows), also)[1] == plain_mean > 0.9


@pytest.mark.parametrize("view", ["white", "mover"])
def test_values_that_are_unknown_neither_teach_nor_count(view):
    section = TensorSection(view=view)
    rows = {**ROWS, "result": np.resize(np.array([1, -128, -1, -128], np.int8), 400)}
    batch = ChessReading(section)(rows, np.zeros(400, np.uint64))
    known = ~batch["value"].isnan()
    task = task_of(section).eval()
    loss, count = task.loss(batch)
    loss.backward()
    assert count == 400
    assert all(parameter.grad.isfinite().all() for parameter in task.parameters())
    with torch.no_grad():
        figures, (_, value) = task.summarize(task.evaluate(batch)), task.predict(batch)
    error = (value - batch["value"])[known].square()
    assert figures["value_loss"] == pytest.approx(mean(error), rel=1e-5)
    assert loss.item() == pytest.approx(400 * figures["policy_loss"] + float(error.sum()), rel=1e-5)
    assert measure_baseline(Rows(rows), section)[1] == pytest.approx(mean(batch["value"][known]))
    nothing = {**batch, "value": torch.full((400,), torch.nan)}
    with torch.no_grad():
        assert "value_loss" not in task.summarize(task.evaluate(nothing))


@pytest.mark.parametrize("view", ["white", "mover"])
def test_the_baseline_has_the_same_class_for_castling_as_the_targets(view):
    board, positions = chess.Board(chess960=True), []
    for san in ("e4", "e5", "Nf3", "Nf6", "Bc4", "Bc5", "O-O", "O-O"):
        positions.append((board.copy(stack=False), board.parse_san(san)))
        board.push(positions[-1][1])
    rows, section = stored_rows(positions), TensorSection(view=view)
    assert rows["move"][-1] == chess.E8 | chess.H8 << 6
    table = Rows(rows)
    table.variants = np.array([0, 0, 1], np.uint8)
    target = ChessReading(section)(rows, np.zeros(len(positions), np.uint64))["target"]
    assert np.array_equal(measure_baseline(table, section)[0], np.bincount(target, minlength=1968))


def test_training_reads_the_side_to_move_and_validation_no_mirror_images():
    reading = ChessReading(TensorSection(mirror=True, planes=18))
    task = task_of(reading.section)
    assert task.reading_for(torch.device("cpu"), reading) == dataclasses.replace(reading, side=True)
    trained = task.reading_for(torch.device("cuda"), reading)
    assert trained == dataclasses.replace(reading, side=True)
    for each in (reading, trained):
        assert reading_for("train", each) is each
        assert reading_for("val", each) == dataclasses.replace(each, section=TensorSection(planes=18))
