from __future__ import annotations

import math

import chess
import numpy as np
import pytest
import torch

from outofcore.domains.chess.moves import flip_code, mirror_code, uci, vocabulary
from outofcore.domains.chess.params import ChessSection, TensorSection
from outofcore.domains.chess.tensors import ChessReading, make_reading
from outofcore.errors import ParamsError
from tests.domains.chess.positions import image, move_of_class, random_positions, shown_move, stored_rows
from tests.domains.guarded_memory import GuardedMemory

POSITIONS = random_positions(600, seed=1) + random_positions(300, seed=2, chess960=True)
ROWS = stored_rows(POSITIONS)


def random_words(count, seed):
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def read(seed: int = 0, *, rows=ROWS, **settings) -> dict[str, torch.Tensor]:
    return ChessReading(TensorSection(**settings))(rows, random_words(len(rows["move"]), seed))


def planes_by_oracle(board: chess.Board, count: int, view: str) -> np.ndarray:
    """Planes square by square, from python-chess; for the mover, of the position it calls the mirror."""
    white_to_move = board.turn
    if view == "mover" and not board.turn:
        board = board.mirror()
    planes = np.zeros((count, 8, 8), np.uint8)
    for square, piece in board.piece_map().items():
        plane = piece.piece_type - 1 + (0 if piece.color else 6)
        planes[plane, chess.square_rank(square), chess.square_file(square)] = 1
    if count == 18:
        planes[12] = white_to_move
        for n, color in enumerate(chess.COLORS):
            planes[13 + 2 * n] = board.has_kingside_castling_rights(color)
            planes[14 + 2 * n] = board.has_queenside_castling_rights(color)
        if board.ep_square is not None:
            planes[17, chess.square_rank(board.ep_square), chess.square_file(board.ep_square)] = 1
    return planes


@pytest.mark.parametrize("count", [12, 18])
@pytest.mark.parametrize("view", ["white", "mover"])
def test_planes_are_those_of_python_chess(count, view):
    planes = read(planes=count, view=view)["planes"]
    assert planes.dtype == torch.uint8
    assert planes.shape == (len(POSITIONS), count, 8, 8)
    for (board, _), shown in zip(POSITIONS, planes.numpy(), strict=True):
        assert np.array_equal(shown, planes_by_oracle(board, count, view))


@pytest.mark.parametrize("view", ["white", "mover"])
@pytest.mark.parametrize("targets", ["uci", "alphazero"])
def test_targets_are_the_moves_played(view, targets):
    moves = vocabulary(targets)
    flip = image(moves, flip_code(0))
    for (board, move), number in zip(POSITIONS, read(view=view, targets=targets)["target"].tolist(), strict=True):
        turned = view == "mover" and not board.turn
        seen = int(flip[number]) if turned else number
        pawn = board.piece_type_at(move.from_square) == chess.PAWN
        assert uci(move_of_class(moves, seen, pawn=pawn)) == shown_move(board, move).uci()


def test_value_is_the_result_for_white_or_for_the_mover():
    lost_by_white = stored_rows(POSITIONS, result=-1)
    black = torch.from_numpy(ROWS["state"][:, 0] == 1)
    assert torch.equal(read(rows=lost_by_white, view="white")["value"], torch.full((len(POSITIONS),), -1.0))
    assert torch.equal(read(rows=lost_by_white, view="mover")["value"], torch.where(black, 1.0, -1.0))


@pytest.mark.parametrize("view", ["white", "mover"])
@pytest.mark.parametrize("targets", ["uci", "alphazero"])
@pytest.mark.parametrize("mirror", [False, True])
def test_the_mask_holds_the_legal_moves_and_with_them_the_one_played(view, targets, mirror):
    batch = read(view=view, targets=targets, legal_mask=True, mirror=mirror)
    moves = vocabulary(targets)
    assert batch["legal"].shape == (len(POSITIONS), moves.size)
    assert batch["legal"].dtype == torch.bool
    assert batch["legal"].gather(1, batch["target"][:, None]).all()
    assert [len(list(board.legal_moves)) for board, _ in POSITIONS] == batch["legal"].sum(1).tolist()


@pytest.mark.parametrize("view", ["white", "mover"])
def test_mirror_maps_board_and_move_together_and_spares_castling_rights(view):
    plain, mirrored = read(view=view, planes=18), read(view=view, planes=18, mirror=True)
    moves = vocabulary("uci")
    turned = ~(plain["planes"] == mirrored["planes"]).flatten(1).all(1)
    with_rights = torch.from_numpy(ROWS["state"][:, 1] != 0)
    assert with_rights.any()
    assert not (turned & with_rights).any()
    free = int((~with_rights).sum())
    assert 0.4 * free < int(turned.sum()) < 0.6 * free
    assert torch.equal(mirrored["planes"][turned], plain["planes"][turned].flip(3))
    expected = torch.from_numpy(image(moves, mirror_code(0)).astype(np.int64))[plain["target"]]
    assert torch.equal(mirrored["target"], torch.where(turned, expected, plain["target"]))
    assert torch.equal(mirrored["value"], plain["value"])


def test_mirror_depends_on_the_random_words_alone():
    assert torch.equal(read(seed=5, mirror=True)["planes"], read(seed=5, mirror=True)["planes"])
    assert not torch.equal(read(seed=5, mirror=True)["planes"], read(seed=6, mirror=True)["planes"])


EVALUATED = {
    **ROWS,
    "result": np.resize(np.array([1, -128, 0, -1], np.int8), len(POSITIONS)),
    "position_evaluation": np.resize(np.array([-32768, 0, 117, -300, 5000, 32767, -32767], np.int16), len(POSITIONS)),
    "mate": np.resize(np.array([0, 0, 0, 0, 0, -3, 7], np.int8), len(POSITIONS)),
    "clock": np.arange(len(POSITIONS), dtype=np.int32),
    "white_elo": np.resize(np.array([0, 900, 2000], np.int16), len(POSITIONS)),
    "black_elo": np.resize(np.array([1500, 0, 3000], np.int16), len(POSITIONS)),
}


@pytest.mark.parametrize("view", ["white", "mover"])
def test_value_by_evaluation_is_the_winning_chance_of_lichess(view):
    found = read(rows=EVALUATED, view=view, value="evaluation", fields=["clock", "mate"])
    assert found["clock"].tolist() == EVALUATED["clock"].tolist()
    assert found["mate"].tolist() == EVALUATED["mate"].tolist()
    stored = EVALUATED["position_evaluation"].tolist()
    for (board, _), value, centipawns in zip(POSITIONS, found["value"].tolist(), stored, strict=True):
        if centipawns == -32768:
            assert math.isnan(value)
            continue
        bounded = max(-1000, min(centipawns, 1000))
        white = 2 / (1 + math.exp(-0.00368208 * bounded)) - 1
        assert value == pytest.approx(white if board.turn or view == "white" else -white, abs=1e-6)


@pytest.mark.parametrize("view", ["white", "mover"])
def test_elo_is_that_of_who_moves_and_then_of_the_opponent(view):
    found = read(rows=EVALUATED, view=view, elo=True)
    players = zip(EVALUATED["white_elo"].tolist(), EVALUATED["black_elo"].tolist(), strict=True)
    expected = [
        [white, black] if board.turn else [black, white]
        for (board, _), (white, black) in zip(POSITIONS, players, strict=True)
    ]
    assert found["elo"].tolist() == expected
    assert found["to_move"].tolist() == [int(not board.turn) for board, _ in POSITIONS]
    plain = read(rows=EVALUATED, view=view)
    assert set(found) - set(plain) == {"elo", "to_move"}
    assert all(torch.equal(found[name].nan_to_num(9), tensor.nan_to_num(9)) for name, tensor in plain.items())


def test_value_of_an_unfinished_game_is_unknown():
    value = read(rows=EVALUATED)["value"]
    assert value.isnan().tolist() == (EVALUATED["result"] == -128).tolist()
    assert torch.equal(value[2::4].abs(), torch.zeros(len(value[2::4])))


def test_a_field_that_the_store_lacks_is_named():
    section = ChessSection(raw="-", tensors={"fields": ["time_spent"]})
    with pytest.raises(ParamsError, match=r"set chess\.source\.time_spent to true and convert again"):
        make_reading({"params": {"source": {"time_spent": False}}}, section)
    assert "time_spent" in make_reading({"params": {"source": {"time_spent": True}}}, section).fields
    with pytest.raises(ValueError, match=r"expected fields of squares, .*, time_spent, got 'clocks'"):
        ChessSection(raw="-", tensors={"fields": ["clocks"]})


@pytest.mark.parametrize("planes", [18, 119])
def test_any_field_of_a_position_is_given_as_it_is_stored(planes):
    names = ["squares", "state", "move", "result", "clock"]
    section = ChessSection(raw="-", tensors={"planes": planes, "mirror": planes == 18, "fields": names}).tensors
    windows = {name: np.repeat(column[:, None], 8, axis=1) for name, column in EVALUATED.items()}
    batch = ChessReading(section)(windows if planes == 119 else EVALUATED, random_words(len(POSITIONS), 5))
    for name in names:
        assert batch[name].numpy().dtype == EVALUATED[name].dtype
        assert np.array_equal(batch[name].numpy(), EVALUATED[name])


@pytest.mark.parametrize("length", [1, 3])
def test_a_window_has_the_tensors_of_its_positions(length):
    settings = {"planes": 18, "mirror": True, "legal_mask": True, "elo": True, "fields": ["clock"]}
    rows = {name: column.reshape(-1, length, *column.shape[1:]) for name, column in EVALUATED.items()}
    words = random_words(len(POSITIONS) // length, 4)
    windows = ChessReading(TensorSection(**settings), side=True)(rows, words)
    alone = ChessReading(TensorSection(**settings), side=True)(EVALUATED, np.repeat(words, length))
    assert windows.keys() == alone.keys()
    for name, tensor in alone.items():
        assert np.array_equal(windows[name].flatten(0, 1).numpy(), tensor.numpy(), equal_nan=name == "value")
        assert windows[name].shape[:2] == (len(words), length)


def test_an_empty_batch_gives_empty_tensors():
    batch = read(rows={name: column[:0] for name, column in ROWS.items()}, legal_mask=True, mirror=True)
    assert batch["planes"].shape == (0, 12, 8, 8)
    assert batch["legal"].shape == (0, 1968)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("planes", [18, 119])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        pytest.param(0, 2, id="third-side"),
        pytest.param(0, 255, id="last-side"),
        pytest.param(1, 255, id="all-castling-bits"),
        pytest.param(2, 8, id="ninth-file"),
        pytest.param(2, 254, id="last-file"),
        pytest.param(3, 255, id="longest-clock"),
    ],
)
def test_a_row_that_is_no_position_writes_nowhere_else(planes, mirror, column, value):
    memory, masks = GuardedMemory(), GuardedMemory()
    section = TensorSection(planes=planes, mirror=mirror, legal_mask=True)
    rows = {name: values[:8].copy() for name, values in ROWS.items()}
    rows["state"][:, 1:3] = 0, 255
    rows["state"][:, column] = value
    rows["move"][:] = 65_535
    if planes == 119:
        rows = {name: values[None] for name, values in rows.items()}
    words = np.full(len(rows["move"]), 2**64 - 1, np.uint64)
    batch = ChessReading(section, memory=memory, masks=masks)(rows, words)
    assert memory.untouched()
    assert masks.untouched()
    assert (batch["target"] == -1).all()
