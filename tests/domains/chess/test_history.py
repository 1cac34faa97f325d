"""AlphaZero's 119 planes, compared with those that python-chess gives for replayed games."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
import pytest
import torch

import outofcore
from outofcore.domains.chess.model import Network
from outofcore.domains.chess.moves import vocabulary
from outofcore.domains.chess.params import TensorSection
from outofcore.domains.chess.tensors import ChessReading
from outofcore.errors import ParamsError
from outofcore.store.reader import Store, open_store
from tests.domains.chess.positions import random_positions, stored_rows

KNIGHTS = "Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1 Ng8"
MADE_UP = (
    # start position, moves
    ("", "e4 Nf6 Nf3 Ng8 Ng1 Nf6 Nf3 Ng8 Ng1 Nf6"),  # e4 could not be taken en passant: its position comes again
    ("", "e4 Nf6 e5 d5 exd6 exd6 d4 Be7 Nf3 O-O Be2 Re8 O-O Nc6"),
    ("", f"{KNIGHTS} e4 e5 Ke2 Ke7 Ke1 Ke8 Ke2 Ke7 Ke1 Ke8"),  # without the rights to castle it is another position
    ("4k2n/8/8/8/3p4/8/4P2N/4K3 w - - 12 40", "e4 Nf7 Nf3 Nh8 Nh2 Nf7 Nf3 Nh8 Nh2 Ke7"),  # dxe3 was possible once
    ("3k3n/8/8/8/3p4/8/4P2N/3RK3 w - - 12 40", "e4 Nf7 Nf3 Nh8 Nh2 Nf7 Nf3 Nh8 Nh2 Ke7"),  # and here pinned
    ("4k3/P6p/8/8/8/8/7P/4K3 b - - 3 90", "h5 a8=N Kd7 Nb6+ Kc7 Nd5+ Kd6 Nf4 h4 Nh5 h3 Nf6 Ke5 Ng4+ Kf4 Nh6"),
    ("bqnrkrnb/pppppppp/8/8/8/8/PPPPPPPP/BQNRKRNB w FDfd - 0 1", "Nf3 Nf6 O-O O-O Nb3 Nb6 d4 d5"),
)


def played(start: str, moves: str, *, chess960: bool = False) -> chess.Board:
    board = chess.Board(start, chess960=chess960) if start else chess.Board()
    for san in moves.split():
        board.push_san(san)
    return board


def games() -> list[chess.Board]:
    """The games made up, and random ones, half of them of Chess960."""
    found = [played(start, moves, chess960="FDfd" in start) for start, moves in MADE_UP]
    for seed in range(4):
        choice = random.Random(seed)
        board = chess.Board.from_chess960_pos(choice.randrange(960)) if seed % 2 else chess.Board()
        while not board.is_game_over() and len(board.move_stack) < 80:
            board.push(choice.choice(list(board.legal_moves)))
        found.append(board)
    return found


def written(board: chess.Board) -> str:
    game = chess.pgn.Game.from_board(board)
    game.headers["Result"] = "1-0"
    return f"{game}\n\n"


def positions_of(game: chess.Board) -> list[chess.Board]:
    """All positions in which a move was played, each with those before it as its moves."""
    board, found = game.root(), []
    for move in game.move_stack:
        found.append(board.copy())
        board.push(move)
    return found


def slow_planes(positions: list[chess.Board], first: int, view: str) -> np.ndarray[Any, Any]:
    """Planes of the last of the positions of a game, of which those from ``first`` on are stored."""
    now, planes = positions[-1], np.zeros((119, 8, 8), np.uint8)
    turned = view == "mover" and now.turn == chess.BLACK
    sides = (chess.BLACK, chess.WHITE) if turned else (chess.WHITE, chess.BLACK)
    shown = positions[first:][:-9:-1]
    for back, board in enumerate(shown):
        for square, piece in board.piece_map().items():
            rank, file = divmod(square, 8)
            plane = 14 * back + 6 * sides.index(piece.color) + piece.piece_type - 1
            planes[plane, 7 - rank if turned else rank, file] = 1
        reached = board.copy(stack=len(shown) - 1 - back)
        planes[14 * back + 12] = reached.is_repetition(2)
        planes[14 * back + 13] = reached.is_repetition(3)
    planes[112] = now.turn
    planes[113] = now.fullmove_number - positions[0].fullmove_number + 1
    for n, color in enumerate(sides):
        planes[114 + 2 * n] = now.has_kingside_castling_rights(color)
        planes[115 + 2 * n] = now.has_queenside_castling_rights(color)
    planes[118] = now.halfmove_clock
    return planes


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Store]:
    """The games, whole and without their first three positions."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "games.pgn").write_text("".join(map(written, games())))
    settings = {"splits": {"val": 0, "test": 0}, "store": {"chunk_rows": 64, "shard_rows": 256}}
    for skip in (0, 3):
        filters = {"skip_plies": skip, "duplicates": "keep"}
        outofcore.convert("chess", folder / "games.pgn", folder / f"{skip}.zarr", filters=filters, **settings)
    return {skip: open_store(folder / f"{skip}.zarr") for skip in (0, 3)}


@pytest.mark.parametrize("view", ["mover", "white"])
@pytest.mark.parametrize("skip", [0, 3])
def test_planes_are_those_of_replayed_games(stores: dict[int, Store], skip: int, view: str) -> None:
    tensors = outofcore.reading(stores[skip], planes=119, view=view, legal_mask=True, fields=["clock"])
    batches = list(outofcore.loader(stores[skip], "train", 100, shuffle=False, tensors=tensors, memory="64MiB"))
    planes, target, legal = (torch.cat([batch[name] for batch in batches]) for name in ("planes", "target", "legal"))
    expected = [
        slow_planes(positions[: number + 1], skip, view)
        for positions in map(positions_of, games())
        for number in range(skip, len(positions))
    ]
    assert planes.dtype == torch.uint8
    assert planes.shape == (len(expected), 119, 8, 8)
    for shown, plane in zip(planes.numpy(), expected, strict=True):
        assert np.array_equal(shown, plane)
    assert planes[:, 12 + 14 * np.arange(4)].any(0).flatten(1).all()  # repetitions are among them
    assert legal.gather(1, target[:, None]).all()
    plain = outofcore.reading(stores[skip], view=view, legal_mask=True)
    for batch, other in zip(
        batches, outofcore.loader(stores[skip], "train", 100, shuffle=False, tensors=plain), strict=True
    ):
        assert torch.equal(batch["planes"][:, :12], other["planes"])
        assert all(torch.equal(batch[name], other[name]) for name in ("target", "value", "ply", "legal"))


def test_any_order_gives_the_same_planes(stores: dict[int, Store]) -> None:
    tensors = outofcore.reading(stores[0], planes=119)
    (whole,) = outofcore.loader(stores[0], "train", 10_000, shuffle=False, tensors=tensors)
    numbers = np.random.default_rng(0).permutation(len(whole["planes"]))
    chosen = outofcore.ZarrDataset(stores[0], "train", tensors=tensors)[numbers]["planes"]
    assert torch.equal(chosen, whole["planes"][numbers])
    shuffled = torch.cat([batch["planes"] for batch in outofcore.loader(stores[0], "train", 50, tensors=tensors)])
    found, expected = (sorted(each.tobytes() for each in planes.numpy()) for planes in (shuffled, whole["planes"]))
    assert found == expected


@pytest.mark.parametrize("view", ["mover", "white"])
def test_mirror_images_turn_all_boards_and_show_no_castling(stores: dict[int, Store], view: str) -> None:
    rows = stores[0].rows("train").read()
    index = np.maximum(np.arange(len(rows["ply"]))[:, None] + np.arange(-7, 1), 0)
    words = np.random.default_rng(5).integers(0, 2**64, len(index), np.uint64)
    plain, mirrored = (
        ChessReading(TensorSection(planes=119, view=view, mirror=mirror))(
            {name: column[index] for name, column in rows.items()}, words
        )["planes"]
        for mirror in (False, True)
    )
    turned = ~(plain == mirrored).flatten(1).all(1).numpy()
    assert torch.equal(mirrored[turned], plain[turned].flip(3))
    rights = [
        any(board.castling_rights for board in positions[max(number - 7, 0) : number + 1])
        for positions in map(positions_of, games())
        for number in range(len(positions))
    ]
    assert not turned[rights].any()
    assert 0.4 < turned[~np.array(rights)].mean() < 0.6


def test_history_without_a_window_is_refused() -> None:
    rows = stored_rows(random_positions(4, seed=1))
    with pytest.raises(ParamsError, match=r"119: expected a window of 8 rows \(mode reach\) per sample, got \(\)"):
        ChessReading(TensorSection(planes=119))(rows, np.zeros(4, np.uint64))


@pytest.mark.parametrize("filters", [{"min_clock": 1}, {"elo_of": "mover", "min_elo": 1}])
def test_a_store_that_lacks_positions_between_is_refused(tmp_path: Path, filters: dict[str, Any]) -> None:
    tags = '[WhiteElo "2000"]\n[BlackElo "2000"]\n\n'
    (tmp_path / "game.pgn").write_text(f"{tags}1. e4 {{[%clk 0:01:00]}} e5 {{[%clk 0:01:00]}} 1-0\n")
    store = tmp_path / "chess.zarr"
    outofcore.convert("chess", tmp_path / "game.pgn", store, filters=filters)
    assert outofcore.reading(store, planes=18)
    with pytest.raises(ParamsError, match="119 needs all positions of a game"):
        outofcore.reading(store, planes=119)


def test_the_network_sees_counts_of_the_size_of_its_other_planes() -> None:
    network, seen = Network(119, (16, 1), vocabulary("alphazero")), []
    network.stem.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    planes = torch.ones(2, 119, 8, 8, dtype=torch.uint8)
    planes[:, [113, 118]] = 50
    network(planes)
    assert torch.equal(seen[0][0, :, 0, 0], torch.ones(119).index_fill(0, torch.tensor([113, 118]), 0.5))
    assert not [name for name in network.state_dict() if "scale" in name]
