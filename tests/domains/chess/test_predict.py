"""Moves that a model of chess predicts, of games and of positions."""

from __future__ import annotations

from pathlib import Path

import chess
import chess.pgn
import numpy as np
import pytest
import torch

import outofcore
from outofcore.domains.chess.moves import flip_code, vocabulary
from outofcore.errors import RawInputError
from tests.domains.chess.positions import stored_move
from tests.trained import GAMES, write_random

pytestmark = [pytest.mark.xdist_group("report"), pytest.mark.usefixtures("elsewhere")]


@pytest.mark.parametrize(
    "tensors",
    [{"elo": True}, {"view": "white", "targets": "alphazero", "legal_mask": True, "mirror": True}],
    ids=["uci", "other"],
)
def test_chess_moves_are_legal_and_their_probabilities_those_of_the_network(
    project: Path, elsewhere: Path, tensors: dict
) -> None:
    filters = {"min_elo": 2500, "unknown_elo": "drop", "skip_plies": 4, "rated_only": True}  # which reject nothing here
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model", tensors=tensors, filters=filters))
    rated = '[Event "one"]\n[WhiteElo "2410"]\n[BlackElo "2590"]'
    Path("game.pgn").write_text(GAMES.replace('[Event "one"]', rated))
    predictions = model.predict("game.pgn", best=3)
    rows = [row for row in predictions if row["played"]]

    outofcore.convert("chess", "game.pgn", "all.zarr", filters={"duplicates": "keep"}, splits={"val": 0.0, "test": 0.0})
    batches = outofcore.loader("all.zarr", "train", 64, shuffle=False, tensors=model.reading)
    (batch,) = list(batches)
    if "elo" in tensors:
        assert batch["elo"][[0, 1, -1]].tolist() == [[2410, 2590], [2590, 2410], [0, 0]]
    with torch.no_grad():
        logits, values = (each.double().numpy() for each in model.task.predict(batch))
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)

    moves, hits, number = vocabulary(model.section.tensors.targets), 0, 0
    with Path("game.pgn").open() as file:
        games = [chess.pgn.read_game(file) for _ in range(4)]
    for place, game in enumerate([games[0], games[2], games[3]], 1):
        board = game.board()
        for ply, move in enumerate(game.mainline_moves()):
            row, black = rows[number], board.turn == chess.BLACK
            mover = model.section.tensors.view == "mover"
            flip = flip_code(0) if black and mover else 0
            by_move = {
                board.san(each): shares[number, moves.index[stored_move(each) ^ flip]] for each in board.legal_moves
            }
            assert (row["game"], row["ply"], row["played"]) == (place, ply, board.san(move))
            assert row["probability"] == pytest.approx(by_move[row["played"]], rel=1e-4)
            assert row["best"] == pytest.approx({san: by_move[san] for san in row["best"]}, rel=1e-4)
            assert list(row["best"].values()) == sorted(row["best"].values(), reverse=True)
            least = min(row["best"].values())
            assert sum(share > least * (1 + 1e-4) for share in by_move.values()) < 3
            assert row["expected_result"] == pytest.approx(
                -values[number] if black and mover else values[number], abs=1e-5
            )
            hits += int(shares[number].argmax() == moves.index[stored_move(move) ^ flip])
            board.push(move)
            number += 1
    assert number == len(rows) == 20
    assert predictions.figures["top1"] == round(hits / 20, 6)
    assert predictions.figures["positions"] == 20
    assert [each["reason"] for each in predictions.rejects] == ["illegal_move"]
    assert predictions.rejected == {"illegal_move": 1}


@pytest.mark.parametrize("tensors", [{"planes": 18}, {"planes": 119, "view": "mover", "elo": True}])
def test_the_last_row_of_a_chess_game_is_what_to_play_now(
    project: Path, elsewhere: Path, tensors: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It equals the row of the same position in a game that continues, wherever batches end."""
    monkeypatch.setattr("outofcore.models.BATCH", 4)
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model", tensors=tensors))
    moves = ["e4", "e5", "Nf3", "Nc6", "Bb5", "a6", "Ba4", "Nf6", "O-O", "Nxe4", "d4", "b5", "Bb3", "d5", "dxe5", "Be6"]
    for count in (1, 2, 9, 15):
        for name, played in (("shorter", moves[:count]), ("longer", moves[: count + 1])):
            Path(f"{name}.pgn").write_text(f'[Event "e"]\n[WhiteElo "2410"]\n[Result "*"]\n\n{" ".join(played)} *\n')
        *before, now = model.predict("shorter.pgn")
        row = list(model.predict("longer.pgn"))[count]
        assert [each["played"] for each in before] == moves[:count]
        assert (now["ply"], now["played"], now["probability"]) == (count, "", None)
        assert now["best"] == pytest.approx(row["best"], rel=1e-4)
        assert now["expected_result"] == pytest.approx(row["expected_result"], rel=1e-4)
    Path("mate.pgn").write_text('[Event "mate"]\n\nf3 e5 g4 Qh4# 0-1\n')
    assert [row["played"] for row in model.predict("mate.pgn")] == ["f3", "e5", "g4", "Qh4#"]


@pytest.mark.parametrize("planes", [18, 119])
def test_what_to_play_now_is_predicted_of_several_games_at_a_time(
    project: Path, elsewhere: Path, planes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of each game alone, its history and Elo among it; one is over."""
    model = outofcore.load_model(
        write_random(project, "chess", elsewhere / "model", tensors={"planes": planes, "elo": True})
    )
    games = ["e4 e5 Nf3", "d4", "f3 e5 g4 Qh4#", "Nf3 d5 g3 c5 Bg2"]
    texts = [
        f'[Event "{n}"]\n[WhiteElo "{1200 + 400 * n}"]\n[Result "*"]\n\n{text} *\n\n' for n, text in enumerate(games)
    ]
    alone = []
    for text in texts:
        Path("one.pgn").write_text(text)
        alone.append([row for row in model.predict("one.pgn") if not row["played"]])
    sizes, predict = [], model.task.predict
    monkeypatch.setattr(model.task, "predict", lambda batch: (sizes.append(len(batch["planes"])), predict(batch))[1])
    Path("all.pgn").write_text("".join(texts))
    now = [row for row in model.predict("all.pgn") if not row["played"]]
    assert [row["game"] for row in now] == [1, 2, 4]
    assert 3 in sizes
    assert 1 not in sizes
    for row, (lone,) in zip(now, filter(None, alone), strict=True):
        assert row["ply"] == lone["ply"]
        assert row["best"] == pytest.approx(lone["best"], rel=1e-4)
        assert row["expected_result"] == pytest.approx(lone["expected_result"], rel=1e-4)


@pytest.mark.parametrize("tensors", [{"planes": 18, "elo": True}, {"planes": 119, "view": "mover", "legal_mask": True}])
def test_a_position_of_chess_is_given_as_a_fen(project: Path, elsewhere: Path, tensors: dict) -> None:
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model", tensors=tensors))
    fen = "r3k2r/ppp2ppp/2n5/3pP3/1b1P4/2N5/PP3PPP/R1B1K2R w KQkq d6 0 9"
    assert next(iter(model.predict(fen)))["ply"] == 16
    fen = f"{fen[:-1]}1"
    (now,) = model.predict(fen, best=40, elo=2500)
    elo = '[WhiteElo "2500"]\n[BlackElo "2500"]\n'
    Path("game.pgn").write_text(f'[Event "e"]\n{elo}[SetUp "1"]\n[FEN "{fen}"]\n[Result "*"]\n\nexd6 *\n')
    row = next(model.predict("game.pgn", best=40))
    assert now["best"] == pytest.approx(row["best"], rel=1e-4)
    assert set(now["best"]) == {chess.Board(fen).san(move) for move in chess.Board(fen).legal_moves}
    assert now["expected_result"] == pytest.approx(row["expected_result"], rel=1e-4)
    if "elo" in tensors:
        assert next(iter(model.predict(fen, best=40)))["expected_result"] != now["expected_result"]
    for wrong, reason in (
        ("8/8/8/8/8/8/8/8 w - - 0 1", r"legal position, python-chess reports NO_WHITE_KING\|NO_BLACK_KING\|EMPTY$"),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "legal move"),
    ):
        with pytest.raises(RawInputError, match=reason):
            model.predict(wrong)
    with pytest.raises(RawInputError, match="found nothing"):
        model.predict("no/such w file 0")


def test_a_fen_of_chess960_is_a_position_and_its_move_number_is_shown(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model", tensors={"planes": 119}))
    numbers, predict = [], model.task.predict
    monkeypatch.setattr(
        model.task, "predict", lambda batch: (numbers.append(batch["planes"][0, 113, 0, 0].item()), predict(batch))[1]
    )
    for rights in ("KQkq", "FCfc"):
        fen = f"nqrb1krn/pppppppp/8/8/8/8/PPPPPPPP/NQRB1KRN w {rights} - 0 12".replace("FCfc", "GCgc")
        (row,) = model.predict(fen, best=1024)
        board = chess.Board(fen, chess960=True)
        assert set(row["best"]) == {board.san(move) for move in board.legal_moves}
        assert "O-O" in row["best"]
        assert row["ply"] == 22
    assert numbers == [12, 12]
