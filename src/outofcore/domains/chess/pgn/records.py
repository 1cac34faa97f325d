"""Records of other files as PGN: puzzles (CSV) and evaluations of Lichess, games in JSON and of Parquet's rows.

A puzzle is a game from its position, without a result: its columns are tags, its rating is the Elo of who solves it. An
evaluation is a game of one move: the best one by the deepest search, with what that search says of the position. A game
in JSON has ``pgn``, as of chess.com and of Lichess, or ``moves`` and facts by name, as of Lichess's API alone; a row of
Parquet has ``pgn``, or ``movetext`` and its tags as columns, as Lichess's games on the hub.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from itertools import zip_longest
from typing import Any

import numpy as np

from outofcore.ndarrays import Ints
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

MOVES = ("pgn", "movetext", "moves")
"""What a game in JSON or Parquet has one of."""

_HEADER = b"PuzzleId,FEN,Moves,"
_FEN = re.compile(r"[1-8pnbrqkPNBRQK/]+ ([wb]) [-KQkqA-Ha-h]+ (?:-|[a-h][36]) \d+ (\d+)")
_UCI_MOVES = re.compile(r"[a-h][1-8][a-h][1-8][nbrq]?( [a-h][1-8][a-h][1-8][nbrq]?)*")
_ENDS_IN_RESULT = re.compile(r"(?:1-0|0-1|1/2-1/2|\*)\s*\Z")
_RESULTS = {"white": "1-0", "black": "0-1"}
_DRAWN = ("draw", "stalemate", "outoftime", "timeout", "insufficientMaterialClaim")
_TERMINATIONS = {
    **dict.fromkeys(("created", "started"), "Unterminated"),
    **dict.fromkeys(("aborted", "noStart"), "Abandoned"),
    **dict.fromkeys(("timeout", "outoftime"), "Time forfeit"),
    "cheat": "Rules infraction",
}
"""Statuses of Lichess as its PGN has them; others are normal."""


def last_record(text: bytes) -> int:
    """Where the last line begins; 0 if there is one alone."""
    return text.rfind(b"\n", 0, len(text) - 1) + 1


def as_pgn(text: bytes) -> tuple[bytes, Ints, Ints]:
    """The records, a line each, as PGN, and where each begins there and in the text, (records,) each."""
    games, starts, places, at, place = [], list[int](), list[int](), 0, 0
    for line in text.splitlines(keepends=True):
        if line.strip() and not line.startswith(_HEADER):
            written = line.decode("utf-8", "replace").strip()
            games.append((_of_json(written) if written.startswith("{") else _puzzle(written)).encode())
            starts.append(at)
            places.append(place)
            at += len(games[-1])
        place += len(line)
    return b"".join(games), np.array(starts, np.int64), np.array(places, np.int64)


def _written(tags: dict[str, Any], moves: str) -> str:
    """A game as PGN: the values that are not None, and a result after the moves."""
    tags = {"Event": "?", "Result": "*", **{name: value for name, value in tags.items() if value is not None}}
    lines = (f'[{name} "{_quoted(shown(value))}"]\n' for name, value in tags.items())
    ended = moves if _ENDS_IN_RESULT.search(moves) else f"{moves} {tags['Result']}"
    return f"{''.join(lines)}\n{ended}\n\n"


def shown(value: Any) -> str:
    """A value of a table as text, a time of day and a date as PGN has them."""
    if isinstance(value, date):
        return f"{value:%Y.%m.%d}"
    return str(value.replace(microsecond=0) if isinstance(value, time) else value)


def _quoted(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')


def _puzzle(line: str) -> str:
    tags = dict(zip(COLUMNS, line.replace('"', "'").replace("\\", "/").split(","), strict=False))
    moves, rating = tags.pop("Moves", ""), tags.get("Rating", "")
    return _from_position(tags.pop("FEN", ""), moves, "", solver=rating, **tags)


def _of_json(line: str) -> str:
    """A game or an evaluation; without moves if it is none."""
    try:
        record: Any = parse_json(line)
        if "evals" in record:
            return _evaluation(record)
        return of_record(record)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return _written({}, "")


def of_record(record: dict[str, Any]) -> str:
    """A game by name: its ``pgn``, or its ``movetext`` with tags, or its ``moves`` with facts of Lichess's API."""
    if "pgn" in record:
        pgn = record["pgn"].strip()
        return f"{pgn}\n\n" if '[Event "' in pgn else f'[Event "?"]\n{pgn}\n\n'
    if "movetext" in record:
        return _written({name: value for name, value in record.items() if name != "movetext"}, record["movetext"])
    return _of_lichess(record)


def _of_lichess(record: dict[str, Any]) -> str:
    status, clock = record.get("status", ""), record.get("clock") or {}
    tags: dict[str, Any] = {
        "Event": f"{'Rated' if record.get('rated') else 'Casual'} {record.get('speed', '')} game",
        "Site": f"https://lichess.org/{record['id']}" if "id" in record else None,
        "Result": _RESULTS.get(record.get("winner", ""), "1/2-1/2" if status in _DRAWN else "*"),
        "TimeControl": f"{clock['initial']}+{clock['increment']}" if clock else "-",
        "Termination": _TERMINATIONS.get(status, "Normal"),
        "Variant": record.get("variant"),
        "FEN": record.get("initialFen"),
        "ECO": record.get("opening", {}).get("eco"),
        "Opening": record.get("opening", {}).get("name"),
    }
    if "createdAt" in record:
        created = datetime.fromtimestamp(record["createdAt"] / 1000, UTC)
        tags |= {"UTCDate": created, "UTCTime": created.time()}
    for color, player in record.get("players", {}).items():
        user, name = player.get("user", {}), color.capitalize()
        tags |= {name: user.get("name"), f"{name}Elo": player.get("rating"), f"{name}Title": user.get("title")}
        tags[f"{name}RatingDiff"] = player.get("ratingDiff")
    words = zip_longest(record["moves"].split(), record.get("clocks", ()), record.get("analysis", ()))
    return _written(tags, " ".join(f"{move}{_notes(clock, search)}" for move, clock, search in words if move))


def _notes(clock: int | None, search: dict[str, Any] | None) -> str:
    """Centiseconds left and the engine's evaluation after a move, as a comment."""
    notes = []
    if search and ("eval" in search or "mate" in search):
        notes.append(f"[%eval {search['eval'] / 100:.2f}]" if "eval" in search else f"[%eval #{search['mate']}]")
    if clock is not None:
        notes.append(f"[%clk {clock // 360_000}:{clock // 6000 % 60:02}:{clock // 100 % 60:02}.{clock % 100:02}]")
    return f" {{{' '.join(notes)}}}" if notes else ""


def _evaluation(record: dict[str, Any]) -> str:
    deepest = max(record["evals"], key=lambda search: int(search["depth"]))
    best = deepest["pvs"][0]
    plies = 2 * int(best.get("mate", 0))
    score = f"{int(best['cp']) / 100:.2f}" if "cp" in best else f"{'-' * (plies < 0)}M{abs(plies)}"
    depth = str(int(deepest["depth"]))
    return _from_position(f"{record['fen']} 0 1", best["line"].split()[0], f" {{wv={score},}}", Depth=depth)


def _from_position(fen: str, moves: str, comment: str, solver: str = "", **tags: str) -> str:
    """A game from a position, without moves if it is not written as one; who solves it moves second."""
    position = _FEN.fullmatch(fen)
    if not position or not _UCI_MOVES.fullmatch(moves):
        return _written({}, "")
    white_begins = position[1] == "w"
    elo = {"BlackElo" if white_begins else "WhiteElo": solver} if solver else {}
    number = f"{position[2]}{'.' if white_begins else '...'}"
    return _written({"SetUp": "1", "FEN": fen, **elo, **tags}, f"{number} {moves}{comment}")
