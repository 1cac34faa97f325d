"""Planes and moves on read, compared with slow plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sgfmill import boards, sgf, sgf_moves

import outofcore
from outofcore.domains.go.params import TensorSection
from outofcore.domains.go.schema import STATE_COLUMNS
from outofcore.domains.go.tensors import GoReading, planes
from outofcore.errors import ParamsError, StoreError
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import Converted, Move, sgf_of, stones
from tests.domains.guarded_memory import GuardedMemory

FRAME, SIZES = 9, (7, 9)
Rows = dict[str, np.ndarray[Any, Any]]


def legal_moves(rng: np.random.Generator, size: int, count: int) -> list[Move]:
    """Random moves of Black and White in turn, none on a stone, a suicide or a ko taken back; else passes."""
    board, ko = boards.Board(size), None
    moves: list[Move] = []
    for colour in [0, 1] * (count // 2):
        move: Move = (colour, None)
        forbidden, ko = ko, None
        for place in rng.permutation(size * size).tolist():
            row, column = divmod(place, size)
            tried, point = board.copy(), (size - 1 - row, column)
            if board.get(*point) is None and point != forbidden:
                taken = tried.play(*point, "bw"[colour])
                if tried.get(*point) is not None:
                    board, ko, move = tried, taken, (colour, (row, column))
                    break
        moves.append(move)
    return moves


@pytest.fixture
def converted(convert_text: ConvertText) -> Converted:
    """Random games of two sizes, captures among them."""
    rng = np.random.default_rng(1)
    games = []
    for size in (7, 9, 9, 7):
        moves = legal_moves(rng, size, 100)
        moves.insert(20, (0, None))
        games.append(sgf_of(moves, size))
    result = convert_text(b"".join(games), filters={"sizes": SIZES})
    assert result.counts["captures"] > 10
    assert len(result.keys) == 4
    return result


def random_words(count: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def read(rows: Rows, seed: int = 0, **settings: Any) -> dict[str, np.ndarray[Any, Any]]:
    reading = GoReading(TensorSection(**settings), FRAME, SIZES, games=True)
    count = len(rows["move"])
    index = np.arange(count)
    if reading.reach > 1:
        index = np.maximum(index[:, None] + np.arange(1 - reading.reach, 1), 0)
    batch = reading({name: rows[name][index] for name in reading.fields}, random_words(len(index), seed))
    return {name: tensor.numpy() for name, tensor in batch.items()}


def slow_planes(converted: Converted, features: str) -> np.ndarray[Any, Any]:
    boards, state = stones(converted.rows, FRAME), converted.rows["state"]
    steps = 1 if features == "planes3" else 8
    result = []
    for row in range(len(boards)):
        own, size = int(state[row, 0]) + 1, int(state[row, 1])
        told = []
        for back in range(steps):
            here = boards[row - back] if back <= state[row, 3] else np.zeros((FRAME, FRAME), np.int64)
            told += [here == own, here == 3 - own]
        if features == "planes3":
            ko = np.zeros((FRAME, FRAME), np.int64)
            if state[row, 2] >= 0:
                ko[divmod(int(state[row, 2]), FRAME)] = 1
            told.append(ko)
        if features == "alphagozero18":
            board = np.zeros((FRAME, FRAME), np.int64)
            board[:size, :size] = 1
            told += [board * (own == 1), board * (own == 2)]
        result.append(np.stack(told))
    return np.stack(result).astype(np.uint8)


@pytest.mark.parametrize("features", ["planes3", "alphagozero18"])
def test_feature_sets(converted: Converted, features: Any) -> None:
    batch = read(converted.rows, features=features)
    assert np.array_equal(batch["planes"], slow_planes(converted, features))
    assert batch["planes"].shape[1] == planes(TensorSection(features=features))
    assert np.array_equal(batch["move"], converted.rows["move"])
    assert np.array_equal(batch["to_play"], converted.rows["state"][:, 0])
    assert np.array_equal(batch["number"], converted.rows["state"][:, 3])
    assert np.array_equal(batch["game"], converted.rows["game"])
    on_board = np.zeros((len(batch["move"]), FRAME, FRAME), np.uint8)
    for row, size in enumerate(converted.rows["state"][:, 1]):
        on_board[row, :size, :size] = 1
    assert np.array_equal(batch["on_board"], on_board)


def turned(board: np.ndarray[Any, Any], symmetry: int) -> np.ndarray[Any, Any]:
    for bit, turn in ((1, np.transpose), (2, np.flipud), (4, np.fliplr)):
        board = turn(board) if symmetry & bit else board
    return board


@pytest.mark.parametrize("features", ["planes3", "alphagozero18"])
def test_symmetries_turn_planes_and_moves_together(converted: Converted, features: Any) -> None:
    plain = read(converted.rows, features=features)
    batch = read(converted.rows, seed=3, features=features, symmetries=True)
    drawn = random_words(len(batch["move"]), 3) % np.uint64(8)
    assert set(drawn) == set(range(8))
    for row, symmetry in enumerate(drawn):
        size = int(converted.rows["state"][row, 1])
        for plane, expected in zip(batch["planes"][row], plain["planes"][row], strict=True):
            assert np.array_equal(plane[:size, :size], turned(expected[:size, :size], symmetry))
            assert not plane[size:].any()
            assert not plane[:, size:].any()
        if plain["move"][row] == FRAME * FRAME:
            assert batch["move"][row] == FRAME * FRAME
        else:
            chosen = np.zeros((FRAME, FRAME), np.int64)
            chosen[divmod(int(plain["move"][row]), FRAME)] = 1
            shown = turned(chosen[:size, :size], symmetry)
            assert shown[divmod(int(batch["move"][row]), FRAME)] == 1


def test_one_size_needs_no_mask(converted: Converted) -> None:
    reading = GoReading(TensorSection(), FRAME, (FRAME,))
    rows = {name: converted.rows[name][80:90] for name in reading.fields}
    assert set(reading(rows, random_words(len(rows["move"]), 0))) == {"planes", "move", "to_play", "number"}


@pytest.mark.parametrize("length", [None, 1, 7])
def test_history_without_a_window_is_refused(converted: Converted, length: int | None) -> None:
    reading = GoReading(TensorSection(features="alphagozero18"), FRAME, SIZES)
    index = np.arange(4) if length is None else np.arange(4)[:, None] + np.arange(length)
    with pytest.raises(ParamsError, match="window of length 8"):
        reading({name: converted.rows[name][index] for name in reading.fields}, random_words(4, 0))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        pytest.param("to_play", 2, id="third-colour"),
        pytest.param("to_play", -30, id="negative-colour"),
        pytest.param("size", 26, id="large-board"),
        pytest.param("ko", 81, id="ko-beyond-the-board"),
        pytest.param("ko", 20_000, id="ko-far-beyond-the-board"),
        pytest.param("move", 82, id="move-after-pass"),
        pytest.param("move", -1, id="negative-move"),
    ],
)
@pytest.mark.parametrize("features", ["planes3", "planes8", "alphagozero18"])
def test_a_row_that_is_no_position_is_refused_and_writes_nowhere(
    converted: Converted, features: Any, column: str, value: int
) -> None:
    memory = GuardedMemory()
    reading = GoReading(TensorSection(features=features), FRAME, SIZES, memory=memory)
    rows = {name: converted.rows[name][8 - reading.reach : 8].copy() for name in reading.fields}
    if column == "move":
        rows["move"][-1] = value
    else:
        rows["state"][-1, STATE_COLUMNS.index(column)] = value
    with pytest.raises(StoreError, match=f"'{column}': {value}"):
        reading({name: values[None] for name, values in rows.items()}, random_words(1, 0))
    assert memory.untouched()


KATAGO_AREA, KATAGO_TERRITORY = "koPOSITIONALscoreAREAtaxNONEsui1", "koSIMPLEscoreTERRITORYtaxSEKIsui0"
RECORDS = (
    "(;GM[1]SZ[9]KM[6.5]RU[Chinese]BR[3d]WR[2p]RE[B+3.5];B[cc];W[gg];B[];W[cg];B[gc];W[];B[ee];W[dd])",
    "(;GM[1]SZ[9]KM[0]HA[2]AB[cc][gg]RU[Japanese]BR[5k]RE[W+R];W[cg];B[gc];W[ee];B[ed])",
    "(;GM[1]SZ[7]KM[7]RE[Draw];B[cc];W[ee];B[ec])",
    "(;GM[1]SZ[9]RE[?];B[aa];W[bb])",
    f"(;GM[1]SZ[9]KM[7]RU[{KATAGO_AREA}]RE[W+R];B[cc];W[ee])",
    f"(;GM[1]SZ[9]KM[6.5]RU[{KATAGO_TERRITORY}]RE[B+R];B[cc];W[gg])",
)


def test_planes8_and_the_outcome_are_those_that_sgfmill_reads(tmp_path: Path) -> None:
    (tmp_path / "games.sgf").write_text("\n".join(RECORDS))
    settings = {"filters": {"sizes": [7, 9]}, "splits": {"val": 0, "test": 0}}
    outofcore.convert("go", tmp_path / "games.sgf", tmp_path / "go.zarr", **settings)
    tensors = outofcore.reading(tmp_path / "go.zarr", features="planes8", value=True)
    (batch,) = outofcore.loader(tmp_path / "go.zarr", "train", 64, shuffle=False, tensors=tensors)
    named = {"Chinese": 1, "Japanese": -1, KATAGO_AREA: 1, KATAGO_TERRITORY: -1}
    ranks = {"3d": 0.3, "2p": 1.1, "5k": -0.4}
    at = 0
    for record in RECORDS:
        game = sgf.Sgf_game.from_string(record)
        root, size = game.get_root(), game.get_size()
        board, played = sgf_moves.get_setup_and_moves(game)
        stones = [rank for rank in ("BR", "WR") if root.has_property(rank)]
        for number, (colour, point) in enumerate(played):
            own = slice(number - 5 if number > 5 else 0, number)
            before = [move for _, move in played[own]][::-1]
            planes = np.zeros((8, 9, 9), np.uint8)
            for other, row, column in [(c, p[0], p[1]) for c, p in board.list_occupied_points()]:
                planes[int(other != colour), size - 1 - row, column] = 1
            for back, move in enumerate(before):
                if move is not None:
                    planes[3 + back, size - 1 - move[0], move[1]] = 1
            assert (batch["planes"][at].numpy() == planes).all()
            sign = 1 if colour == "b" else -1
            komi = root.get("KM") if root.has_property("KM") else None
            rank = {side: ranks[root.get(side).strip()] if side in stones else None for side in ("BR", "WR")}
            sides = [rank["BR"], rank["WR"]][::sign]
            expected = [float(back < len(before) and before[back] is None) for back in range(5)]
            expected += [0, 1] if komi is None else [-sign * komi / 20, 0]
            expected += [(2 if root.has_property("HA") else 0) / 9]
            scoring = named.get(root.get("RU") if root.has_property("RU") else "", 0)
            expected += [scoring, float(not scoring)]
            expected += [each for side in sides for each in ((0, 1) if side is None else (side, 0))]
            np.testing.assert_allclose(batch["globals"][at].numpy(), expected, atol=1e-6)
            result = root.get("RE")
            value = {"B": sign, "W": -sign, "D": 0}.get(result[0], np.nan)
            score = {"B+3.5": 3.5 * sign, "Draw": 0}.get(result, np.nan)
            np.testing.assert_equal([float(batch["value"][at]), float(batch["score"][at])], [value, score])
            if point is not None:
                board.play(*point, colour)
            at += 1
    assert at == len(batch["move"])
