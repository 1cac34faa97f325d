"""Lichess's puzzles (CSV) and evaluations (JSON lines) as PGN, a record a line.

A puzzle is a game from its position, without a result: its columns are tags, its rating is the Elo of who solves it. An
evaluation is a game of one move: the best one by the deepest search, with what that search says of the position.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from outofcore.domains.chess.params import RECORDS
from outofcore.ndarrays import Ints
from outofcore.raw.files import wanted
from outofcore.settings.yaml_text import parse_json

COLUMNS = (
    "PuzzleId",
    "FEN",
    "Moves",
    "Rating",
    "RatingDeviation",
    "Popularity",
    "NbPlays",
    "Themes",
    "GameUrl",
    "OpeningTags",
)
"""Of a file of puzzles."""

_HEADER = b"PuzzleId,FEN,Moves,"
_FEN = re.compile(r"[1-8pnbrqkPNBRQK/]+ ([wb]) [-KQkqA-Ha-h]+ (?:-|[a-h][36]) \d+ (\d+)")
_MOVES = re.compile(r"[a-h][1-8][a-h][1-8][nbrq]?( [a-h][1-8][a-h][1-8][nbrq]?)*")


def holds_records(name: str) -> bool:
    """Whether a file of this name holds such records, and not PGN."""
    return wanted(name, RECORDS)


def last_record(text: bytes) -> int:
    """Where the last line begins; 0 if there is one alone."""
    return text.rfind(b"\n", 0, len(text) - 1) + 1


def as_pgn(text: bytes) -> tuple[bytes, Ints, Ints]:
    """The records as PGN, and where each begins there and in the text, (records,) each."""
    games, starts, places, at, place = [], list[int](), list[int](), 0, 0
    for line in text.splitlines(keepends=True):
        if line.strip() and not line.startswith(_HEADER):
            written = line.decode("utf-8", "replace").strip()
            tags, moves = _evaluation(written) if written.startswith("{") else _puzzle(written)
            shown = "".join(f'[{name} "{value}"]\n' for name, value in {"Event": "?", "Result": "*", **tags}.items())
            games.append(f"{shown}\n{moves} *\n\n".encode())
            starts.append(at)
            places.append(place)
            at += len(games[-1])
        place += len(line)
    return b"".join(games), np.array(starts, np.int64), np.array(places, np.int64)


def _puzzle(line: str) -> tuple[dict[str, str], str]:
    tags = dict(zip(COLUMNS, line.replace('"', "'").replace("\\", "/").split(","), strict=False))
    moves, rating = tags.pop("Moves", ""), tags.get("Rating", "")
    return _game(tags.pop("FEN", ""), moves, **tags, solver=rating)


def _evaluation(line: str) -> tuple[dict[str, str], str]:
    try:
        record: Any = parse_json(line)
        deepest = max(record["evals"], key=lambda search: int(search["depth"]))
        best = deepest["pvs"][0]
        plies = 2 * int(best.get("mate", 0))
        score = f"{int(best['cp']) / 100:.2f}" if "cp" in best else f"{'-' * (plies < 0)}M{abs(plies)}"
        tags, moves = _game(f"{record['fen']} 0 1", best["line"].split()[0])
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}, ""
    return {**tags, "Depth": str(int(deepest["depth"]))}, f"{moves} {{wv={score},}}"


def _game(fen: str, moves: str, solver: str = "", **tags: str) -> tuple[dict[str, str], str]:
    """Tags and moves of a game from a position, none if it is not written as one; who solves it moves second."""
    position = _FEN.fullmatch(fen)
    if not position or not _MOVES.fullmatch(moves):
        return {}, ""
    white_begins = position[1] == "w"
    elo = {"BlackElo" if white_begins else "WhiteElo": solver} if solver else {}
    number = f"{position[2]}{'.' if white_begins else '...'}"
    return {"SetUp": "1", "FEN": fen, **elo, **tags}, f"{number} {moves}"
