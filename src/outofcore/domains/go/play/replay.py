"""Play the games of a unit and write one row per move: the position before it, and the move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.params import FilterSection
from outofcore.domains.go.play.engine import COUNTED, MOST_MOVES, SETUP_CAPTURES, play_games
from outofcore.domains.go.sgf.reader import ADD_BLACK, Games

STATE_COLUMNS = ("to_play", "size", "ko", "move_number")
_BREACHES = {"keep": 0, "stop": 1, "reject": 2}


@dataclass(frozen=True)
class Played:
    """Rows of the kept games, consecutive, and the outcome of each game."""

    stones: npt.NDArray[np.uint8]  # uint8 (rows, 2, bytes): black and white stones before the move, packed bits
    state: npt.NDArray[np.int16]  # int16 (rows, 4): STATE_COLUMNS
    move: npt.NDArray[np.int16]  # int16 (rows,): point in the frame; their number for a pass
    # uint8 (rows, 3, bytes): stones with 1, 2, 3 liberties, packed bits; no rows unless requested
    liberties: npt.NDArray[np.uint8]
    outcome: npt.NDArray[np.uint8]  # uint8 (games,): Outcome
    trouble: npt.NDArray[np.int64]  # int64 (games,): event at which a rejected game failed
    rows: npt.NDArray[np.int64]  # int64 (games, 2): first row and number of rows
    counts: npt.NDArray[np.int32]  # int32 (games, columns): COUNTED
    alternating: npt.NDArray[np.bool_]  # bool (games,): the colours take turns
    record: npt.NDArray[np.int16]  # int16: size, setup and moves, independent of the frame
    record_spans: npt.NDArray[np.int64]  # int64 (games, 2): [first, end) of each game in ``record``


def plane_bytes(frame: int) -> int:
    """Bytes of one packed plane."""
    return (frame * frame + 7) // 8


def replay(
    games: Games,
    wanted: npt.NDArray[np.bool_],
    sizes: npt.NDArray[np.int64],
    placed: npt.NDArray[np.int64],
    suicide_allowed: npt.NDArray[np.bool_],
    superko: npt.NDArray[np.int64],
    filters: FilterSection,
    *,
    liberties: bool,
) -> Played:
    """Play the ``wanted`` games from their main lines.

    ``sizes`` are board sides, ``placed`` handicap stones put on star points first. ``superko``: 0 none, 1 positional, 2
    situational. ``filters`` decide about illegal moves.
    """
    count = len(wanted)
    before = np.concatenate(([0], np.cumsum(games.kind[: games.first[-1]] < ADD_BLACK)))
    moves = int(np.minimum(np.diff(before[games.first]), MOST_MOVES)[wanted].sum())
    width = plane_bytes(filters.frame)
    played = Played(
        stones=np.empty((moves, 2, width), np.uint8),
        state=np.empty((moves, 4), np.int16),
        move=np.empty(moves, np.int16),
        liberties=np.empty((moves if liberties else 0, 3, width), np.uint8),
        outcome=np.zeros(count, np.uint8),
        trouble=np.zeros(count, np.int64),
        rows=np.zeros((count, 2), np.int64),
        counts=np.zeros((count, len(COUNTED)), np.int32),
        alternating=np.ones(count, np.bool_),
        record=np.empty(6 * moves + count, np.int16),
        record_spans=np.zeros((count, 2), np.int64),
    )
    breaches = np.array([_BREACHES[getattr(filters, name)] for name in COUNTED[:SETUP_CAPTURES]], np.int64)
    rows = play_games(
        games.first,
        games.kind,
        games.points,
        games.node,
        wanted,
        sizes,
        placed,
        suicide_allowed,
        superko,
        breaches,
        filters.frame,
        filters.min_moves,
        played.stones,
        played.state,
        played.move,
        played.liberties,
        played.outcome,
        played.trouble,
        played.rows,
        played.counts,
        played.alternating,
        played.record,
        played.record_spans,
    )
    fields: dict[str, Any] = {name: getattr(played, name)[:rows] for name in ("stones", "state", "move", "liberties")}
    return Played(**{**vars(played), **fields})
