"""Play the games of a unit and write one row for every move: the position before it, and the move."""

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
    """Rows of the games that are kept, one after another, and what became of each game.

    Attributes
    ----------
    stones
        Black and white stones before the move, packed bits, uint8 (rows, 2, bytes).
    state
        :data:`STATE_COLUMNS`, int16 (rows, 4).
    move
        Point in the frame, or the number of its points for a pass, int16 (rows,).
    liberties
        Stones with 1, 2, 3 liberties, packed bits, uint8 (rows, 3, bytes); no rows where they were not asked for.
    outcome
        :class:`Outcome` of each game, uint8.
    trouble
        Event at which a game that is not kept failed, int64.
    rows
        First row and number of rows of each game, int64 (games, 2).
    counts
        :data:`COUNTED` in each game, int32 (games, columns).
    alternating
        Whether the colours take turns, bool.
    record
        Everything that makes a game itself (size, setup, moves) as int16, independent of the frame.
    record_spans
        First and last + 1 of each game in ``record``, int64 (games, 2).
    """

    stones: npt.NDArray[np.uint8]
    state: npt.NDArray[np.int16]
    move: npt.NDArray[np.int16]
    liberties: npt.NDArray[np.uint8]
    outcome: npt.NDArray[np.uint8]
    trouble: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int32]
    alternating: npt.NDArray[np.bool_]
    record: npt.NDArray[np.int16]
    record_spans: npt.NDArray[np.int64]


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
    """Play the games.

    Parameters
    ----------
    games
        Their main lines.
    wanted
        Whether a game is played at all.
    sizes
        Side of each board.
    placed
        Handicap stones to put on the star points before the first event.
    suicide_allowed, superko
        Rules of each game; superko: 0 none, 1 no position twice, 2 no position twice with the same side to move.
    filters
        What illegal moves cost.
    liberties
        Whether liberties are written.
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
