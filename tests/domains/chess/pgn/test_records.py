"""Lichess's puzzles and evaluations in a store, against python-chess reading the same lines."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import chess
import chess.pgn
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import outofcore
from outofcore.domains.chess.convert import Converter
from outofcore.domains.chess.params import SUFFIXES, ChessSection
from outofcore.domains.chess.pgn.records import COLUMNS
from outofcore.domains.chess.source import divided, units
from outofcore.errors import RawInputError
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate
from tests.cases import long_cases
from tests.domains.chess.positions import board_fen, played_moves, random_positions

FIRST = "r2qr1k1/b1p2ppp/pp4n1/P1P1p3/4P1n1/B2P2Pb/3NBP1P/RN1QR1K1 b - - 1 16"
SPLITS = {"val": 0.0, "test": 0.0}


def puzzles(count: int) -> list[list[str]]:
    """Rows of a file of puzzles: one of Lichess, and others of one move from each of several positions."""
    made = [["0009B", FIRST, "b6c5 e2g4 h3g4 d1g4", "1112", "74", "87", "569", "advantage short", "u", "Kings_Pawn"]]
    for number, (board, move) in enumerate(random_positions(count, seed=8)):
        made.append([f"{number:05}", board.fen(), board.uci(move), str(600 + number), "80", "90", "5", "mate", "u", ""])
    return made


def write(path: Path, content: bytes) -> None:
    path.write_bytes(zstandard.ZstdCompressor().compress(content))


def fens(rows: dict[str, np.ndarray]) -> list[str]:
    """Placement and side to move."""
    return [f"{board_fen(rows, row)} {'wb'[side]}" for row, side in enumerate(rows["state"][:, 0].tolist())]


def test_a_puzzle_is_a_game_whose_solver_has_its_rating(tmp_path: Path) -> None:
    rows = puzzles(40)
    bad = [["bad", "8/8/8/8/8/8/8/8 w - - 0 1", "e2e4"], ["odd", FIRST, "b6c5 and more"], ["illegal", FIRST, "b6c7"]]
    with (tmp_path / "my_puzzle.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows, *bad, []])
    write(tmp_path / "lichess_db_puzzle.csv.zst", (tmp_path / "my_puzzle.csv").read_bytes())
    filters = {"unfinished": "keep"}
    report = outofcore.convert(
        "chess",
        tmp_path / "lichess_db_puzzle.csv.zst",
        tmp_path / "a.zarr",
        filters=filters,
        splits=SPLITS,
        source={"tags": ["PuzzleId", "Themes", "Popularity"]},
        audit={"records": 1000},
    )
    assert (report["found"], report["accepted"]) == (44, 41)
    rejects = list(csv.DictReader((tmp_path / "a.zarr.rejects.csv").read_text().splitlines()))
    lines = (tmp_path / "my_puzzle.csv").read_bytes().splitlines(keepends=True)
    offsets = np.cumsum([0, *map(len, lines)]).tolist()
    assert [(each["reason"], int(each["offset"])) for each in rejects] == [
        ("invalid_position", offsets[42]),
        ("no_moves", offsets[43]),
        ("illegal_move", offsets[44]),
    ]
    store = outofcore.open_store(tmp_path / "a.zarr")
    games, stored = store.sequences("train"), store.rows("train").read()
    expected_fens, expected_moves, expected_elo = [], [], []
    for row in rows:
        board = chess.Board(row[1])
        expected_elo.append([0, int(row[3])] if board.turn else [int(row[3]), 0])
        for uci in row[2].split():
            expected_fens.append(" ".join(board.fen().split()[:2]))
            expected_moves.append(uci)
            board.push_uci(uci)
    assert played_moves(stored) == expected_moves
    assert fens(stored) == expected_fens
    assert np.stack([games["white_elo"].read(), games["black_elo"].read()], axis=1).tolist() == expected_elo
    for name, column in (("puzzle_id", 0), ("themes", 7), ("popularity", 5)):
        assert games[name].read().tolist() == [row[column] for row in rows]
    # Only the moves of the solution: its solver has the rating.
    solved = outofcore.convert(
        "chess",
        tmp_path / "my_puzzle.csv",
        tmp_path / "b.zarr",
        filters={**filters, "min_elo": 1, "elo_of": "mover"},
        splits=SPLITS,
    )
    assert solved["rows"]["train"] == 2
    assert played_moves(outofcore.open_store(tmp_path / "b.zarr").rows("train").read()) == ["e2g4", "d1g4"]


def test_an_evaluation_is_a_position_with_its_best_move(tmp_path: Path) -> None:
    lines, expected = [], []
    castles = chess.Board("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1"), chess.Move.from_uci("e8c8")
    for number, (board, move) in enumerate([*random_positions(59, seed=9), castles]):
        score = {"mate": number % 7 - 3 or 4} if number % 3 == 0 else {"cp": 10 * number - 300}
        value = np.sign(score["mate"]) * 32767 if "mate" in score else score["cp"]
        line = f"{board.uci(move, chess960=True)} a1a2"  # castling is the king's move to its rook
        best = {"pvs": [{**score, "line": line}, {"cp": 1, "line": "x"}], "knodes": 9, "depth": 30}
        other = {"pvs": [{"cp": -999, "line": "h1h2"}], "knodes": 99, "depth": 12}
        evals = [other, best] if number % 2 else [best, other]
        lines.append(json.dumps({"fen": " ".join(board.fen().split()[:4]), "evals": evals}))
        expected.append((" ".join(board.fen().split()[:2]), board.uci(move), value, score.get("mate", 0)))
    bad = ["{", '{"fen": "x", "evals": []}', '{"fen": 5, "evals": [{"depth": 3, "pvs": [{"cp": 5, "line": "e2e4"}]}]}']
    write(tmp_path / "lichess_db_eval.jsonl.zst", "\n".join([*lines, *bad, ""]).encode())
    made = outofcore.convert(
        "chess",
        tmp_path / "lichess_db_eval.jsonl.zst",
        tmp_path / "a.zarr",
        filters={"unfinished": "keep"},
        splits=SPLITS,
        source={"tags": ["Depth"]},
        audit={"records": 1000},
    )
    assert (made["found"], made["accepted"]) == (63, len(set(expected)))
    store = outofcore.open_store(tmp_path / "a.zarr")
    rows = store.rows("train").read()
    columns = (fens(rows), played_moves(rows), rows["position_evaluation"].tolist(), rows["mate"].tolist())
    assert list(zip(*columns, strict=True)) == expected
    assert set(store.sequences("train")["depth"].read()) == {"30"}
    value = next(iter(outofcore.loader(store, tensors=outofcore.reading(store, value="evaluation"))))["value"]
    assert not value.isnan().any()


@pytest.mark.parametrize("size", [700, 5000])
def test_units_of_any_size_hold_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = "".join(",".join(row) + "\n" for row in [list(COLUMNS), *puzzles(30)])
    (tmp_path / "a_puzzle.csv").write_text(text)
    (tmp_path / "a.rejects.csv").write_text("no,puzzle\n")
    (tmp_path / "b.pgn").write_text('[Event "x"]\n[Result "1-0"]\n\n1. e4 e5 1-0\n')
    monkeypatch.setattr("outofcore.domains.chess.source.UNIT_BYTES", size)
    section = ChessSection(raw=str(tmp_path), filters={"unfinished": "keep"})
    convert = Converter(section, AuditRate(1, 1))
    files = find_files(tmp_path, "**/*", SUFFIXES, section="chess")
    results = [convert(unit) for unit in units(files, section)]
    assert len(results) >= 2
    assert not any(each.differences for each in results)
    assert sum(each.found for each in results) == 32
    offsets = [offset for each in results for offset in each.sequences["offset"].tolist()]
    assert offsets == [*np.cumsum([len(line) for line in text.splitlines(keepends=True)])[:-1].tolist(), 0]


GAMES = (
    (
        '[Event "Rated blitz game"]\n[Site "https://lichess.org/abc"]\n[White "a \\"b\\" c"]\n[Black "ö"]\n'
        '[Result "1-0"]\n'
        '[UTCDate "2020.01.31"]\n[UTCTime "23:59:58"]\n[WhiteElo "1500"]\n[BlackElo "1600"]\n[WhiteTitle "GM"]\n'
        '[TimeControl "180+2"]\n[Termination "Normal"]\n\n'
        "1. e4 { [%clk 0:03:00] } 1... e5 { [%eval -1.5] [%clk 0:03:00] }"
        " 2. Nf3 { [%eval #-3] [%clk 0:02:58.5] } 1-0\n\n"
    ),
    (
        '[Event "Casual rapid game"]\n[Site "https://lichess.org/abd"]\n[White "d"]\n[Black "e"]\n[Result "1/2-1/2"]\n'
        '[UTCDate "2020.02.01"]\n[UTCTime "00:00:00"]\n[TimeControl "-"]\n[Termination "Time forfeit"]\n'
        '[SetUp "1"]\n[FEN "4k3/8/8/8/8/8/4P3/4K3 b - - 5 40"]\n\n40... Kd7 41. e4 1/2-1/2\n\n'
    ),
)
MILLISECONDS = (1580515198000, 1580515200999)
BY_API = (
    {
        "id": "abc",
        "rated": True,
        "variant": "standard",
        "speed": "blitz",
        "createdAt": MILLISECONDS[0],
        "status": "resign",
        "winner": "white",
        "moves": "e4 e5 Nf3",
        "clocks": [18000, 18000, 17850],
        "players": {
            "white": {"user": {"name": 'a "b" c', "id": "a", "title": "GM"}, "rating": 1500},
            "black": {"user": {"name": "ö", "id": "o"}, "rating": 1600},
        },
        "clock": {"initial": 180, "increment": 2},
        "analysis": [{}, {"eval": -150}, {"mate": -3}],
    },
    {
        "id": "abd",
        "rated": False,
        "variant": "fromPosition",
        "speed": "rapid",
        "createdAt": MILLISECONDS[1],
        "status": "outoftime",
        "moves": "Kd7 e4",
        "initialFen": "4k3/8/8/8/8/8/4P3/4K3 b - - 5 40",
        "players": {"white": {"user": {"name": "d"}}, "black": {"user": {"name": "e"}}},
    },
)


def of_hub(pgn: str) -> dict[str, object]:
    """A row with the types of Lichess's games on the hub."""
    game = chess.pgn.read_game(io.StringIO(pgn))
    tags: dict[str, object] = {name: value.replace('\\"', '"') for name, value in game.headers.items()}
    del tags["Date"], tags["Round"]
    for name in ("WhiteElo", "BlackElo"):
        tags[name] = int(tags[name]) if name in tags else None
    moment = datetime.strptime(f"{tags['UTCDate']} {tags['UTCTime']}", "%Y.%m.%d %H:%M:%S")
    return {**tags, "UTCDate": moment.date(), "UTCTime": moment.time(), "movetext": pgn.split("\n\n")[1]}


CONTENTS = {
    "games.pgn": lambda: "".join(GAMES).encode(),
    "api.ndjson": lambda: "".join(f"{json.dumps({'id': 'x', 'pgn': game})}\n" for game in GAMES).encode(),
    "chesscom.json": lambda: json.dumps({"games": [{"url": "u", "pgn": game} for game in GAMES]}).encode(),
    "list.json": lambda: json.dumps([{"pgn": game} for game in GAMES], indent=1).encode(),
    "api.jsonl": lambda: "".join(f"{json.dumps(game)}\n" for game in BY_API).encode(),
    "hub.parquet": lambda: in_parquet([of_hub(game) for game in GAMES]),
    "pgn.parquet": lambda: in_parquet([{"pgn": game, "other": 1} for game in GAMES]),
}


def in_parquet(rows: list[dict[str, object]]) -> bytes:
    sink, names = io.BytesIO(), dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    pq.write_table(table, sink, row_group_size=1)
    return sink.getvalue()


def contents(store: Path) -> tuple[dict[str, list], list[int]]:
    """All columns of a store but those of places, and the offsets."""
    opened = outofcore.open_store(store)
    games = opened.sequences("train")
    columns = {name: games[name].read().tolist() for name in games if name not in ("source", "member", "offset")}
    (batch,) = outofcore.loader(store, "train", 99, shuffle=False, tensors="stored")
    return {**columns, **{name: values.tolist() for name, values in batch.items()}}, games["offset"].read().tolist()


@pytest.mark.parametrize("name", [*list(CONTENTS)[1:4], *long_cases(*list(CONTENTS)[4:])])
def test_games_in_other_files_are_those_in_pgn(tmp_path: Path, name: str) -> None:
    stored = []
    for file in ("games.pgn", name):
        (tmp_path / file).write_bytes(CONTENTS[file]())
        settings = {"splits": SPLITS, "source": {"tags": ["White", "Black", "UTCTime", "Site", "WhiteTitle"]}}
        figures = outofcore.convert("chess", tmp_path / file, tmp_path / f"{file}.zarr", **settings)
        assert (figures["found"], figures["accepted"]) == (2, 2)
        stored.append(contents(tmp_path / f"{file}.zarr"))
    (expected, _), (read, offsets) = stored
    assert read == expected
    lines = name.endswith(("l", "ndjson"))
    assert offsets == [0, CONTENTS[name]().index(b"\n") + 1 if lines else 1]


@pytest.mark.parametrize(
    ("name", "content", "rejected"),
    [
        ("a.ndjson", b'{"pgn": "1. e4 1-0"}\n{"pgn": 5}\n{broken\n[]\n{"pgn": "1. d4 1-0"}\n', {"no_moves": 3}),
        ("a.json", b'{"games": [{"pgn": "1. e4 1-0"}, {"id": 1}, 7, {"pgn": "1. d4 1-0"}]}', {"no_moves": 2}),
        ("a.json", b'{"games": [{"pgn": "1. e4 1-0"}', {"damaged": 1}),
        ("a.parquet", b"PAR1", {"damaged": 1}),
        ("a.parquet", in_parquet([{"text": "1. e4 1-0"}]), {"damaged": 1}),
    ],
    ids=["lines", "list", "json cut off", "no parquet", "no such column"],
)
def test_a_broken_record_costs_itself_alone(tmp_path: Path, name: str, content: bytes, rejected: dict) -> None:
    (tmp_path / "b.pgn").write_bytes(b"1. c4 1-0")
    (tmp_path / name).write_bytes(content)
    figures = outofcore.convert("chess", tmp_path, tmp_path / "a.zarr", splits=SPLITS)
    assert figures["rejected"] == rejected


def test_parquet_in_an_archive_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet.zst", in_parquet([{"pgn": GAMES[0]}]))
    with pytest.raises(RawInputError, match="unpack it"):
        outofcore.convert("chess", tmp_path, tmp_path / "a.zarr")


def test_rows_are_traced_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "hub.parquet").write_bytes(CONTENTS["hub.parquet"]())
    (file,) = find_files(tmp_path, "**/*", SUFFIXES, section="chess")
    section = ChessSection(raw=str(tmp_path))
    whole = list(units([file], section))
    assert [unit.offset for unit in whole] == [0, 1]
    joined = replace(whole[0], payload=whole[0].payload + whole[1].payload)
    stretch = replace(joined.stretches[0], stop=len(joined.payload))
    parts = divided(replace(joined, stretches=(stretch,)), section)
    assert [(part.offset, part.payload) for part in parts] == [(unit.offset, unit.payload) for unit in whole]
