"""Play the games of a unit and write one row for every move: the position before it, and the move."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from outofcore.domains.go.board import (
    CELLS,
    EMPTY,
    NO_KO,
    STRIDE,
    clear,
    liberty_planes,
    play,
    put,
    remove_dead,
)
from outofcore.domains.go.params import FilterSection
from outofcore.domains.go.sgf import ADD_BLACK, ADD_EMPTY, NO_POINT, Games

TO_PLAY, SIZE, KO, MOVE_NUMBER = range(4)
STATE_COLUMNS = ("to_play", "size", "ko", "move_number")
MOST_MOVES = 32_767
_PASS_LETTERS = 19  # tt, on boards that have no such point

COUNTED = (
    "occupied",
    "suicide",
    "ko",
    "superko",
    "after_end",
    "late_setup",
    "setup_captures",
    "passes",
    "captures",
)
"""What is counted in each game, by column of :attr:`Played.counts`."""
_BREACHES = {"keep": 0, "stop": 1, "reject": 2}


class Outcome(IntEnum):
    """What became of a game when it was played."""

    KEPT = 0
    PASSED_OVER = 1
    OCCUPIED = 2
    SUICIDE = 3
    KO = 4
    SUPERKO = 5
    LATE_SETUP = 6
    OFF_BOARD = 7
    AMBIGUOUS_NODE = 8
    TOO_MANY_MOVES = 9
    TOO_SHORT = 10


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


def star_points(size: int, stones: int) -> list[tuple[int, int]]:
    """Customary handicap points (row and column from the top left); none where the board has none for so many stones.

    The placement of the Go Text Protocol (fixed_handicap): corners first, then sides, the centre for odd numbers.
    """
    if not 2 <= stones <= 9 or size < 7 or (stones > 4 and (size % 2 == 0 or size == 7)):
        return []
    near = 3 if size >= 13 else 2
    far, middle = size - 1 - near, size // 2
    corners = [(far, near), (near, far), (near, near), (far, far)]
    if stones < 4:
        return corners[:stones]
    sides = {
        4: [],
        5: [(middle, middle)],
        6: [(middle, near), (middle, far)],
        7: [(middle, near), (middle, far), (middle, middle)],
        8: [(middle, near), (middle, far), (near, middle), (far, middle)],
        9: [(middle, near), (middle, far), (near, middle), (far, middle), (middle, middle)],
    }
    return corners + sides[stones]


def _star_table() -> npt.NDArray[np.int64]:
    table = np.full((26, 10, 9), -1, np.int64)
    for size in range(7, 26):
        for stones in range(2, 10):
            for place, (row, column) in enumerate(star_points(size, stones)):
                table[size, stones, place] = (row + 1) * STRIDE + column + 1
    return table


_STARS = _star_table()


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
    chosen = np.repeat(wanted, np.diff(games.first))
    moves = int(np.count_nonzero(chosen & (games.kind[: len(chosen)] < ADD_BLACK)))
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
    breaches = np.array(
        [_BREACHES[getattr(filters, name)] for name in (*COUNTED[:4], "after_end", "late_setup")], np.int64
    )
    rows = _replay(
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
    fields: dict[str, Any] = {
        name: getattr(played, name)[:rows] for name in ("stones", "state", "move", "liberties")
    }
    return Played(**{**vars(played), **fields})


@njit(nogil=True, cache=True)
def _set_up(
    events: tuple[int, int],
    kinds: npt.NDArray[np.uint8],
    points: npt.NDArray[np.uint8],
    size: int,
    frame: int,
    cells: npt.NDArray[np.int8],
    bits: npt.NDArray[np.uint8],
    digest: npt.NDArray[np.uint64],
) -> int:
    """Add and remove the stones of one node; 0 or the :class:`Outcome` that forbids it."""
    told = np.full(CELLS, -1, np.int64)
    for event in range(events[0], events[1]):
        low_column, high_column = (
            min(points[event, 0], points[event, 2]),
            max(points[event, 0], points[event, 2]),
        )
        low_row, high_row = min(points[event, 1], points[event, 3]), max(points[event, 1], points[event, 3])
        if high_column >= size or high_row >= size:
            return 7
        for row in range(low_row, high_row + 1):
            for column in range(low_column, high_column + 1):
                cell = (row + 1) * STRIDE + column + 1
                if told[cell] >= 0 and told[cell] != kinds[event]:
                    return 8
                told[cell] = kinds[event]
                put(
                    cells,
                    bits,
                    digest,
                    frame,
                    cell,
                    EMPTY if kinds[event] == ADD_EMPTY else kinds[event] - ADD_BLACK,
                )
    return 0


@njit(nogil=True, cache=True)
def _replay(
    first: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    points: npt.NDArray[np.uint8],
    nodes: npt.NDArray[np.int32],
    wanted: npt.NDArray[np.bool_],
    sizes: npt.NDArray[np.int64],
    placed: npt.NDArray[np.int64],
    suicide_allowed: npt.NDArray[np.bool_],
    superko: npt.NDArray[np.int64],
    breaches: npt.NDArray[np.int64],
    frame: int,
    min_moves: int,
    out_stones: npt.NDArray[np.uint8],
    out_state: npt.NDArray[np.int16],
    out_move: npt.NDArray[np.int16],
    out_liberties: npt.NDArray[np.uint8],
    outcome: npt.NDArray[np.uint8],
    trouble: npt.NDArray[np.int64],
    spans: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int32],
    alternating: npt.NDArray[np.bool_],
    record: npt.NDArray[np.int16],
    record_spans: npt.NDArray[np.int64],
) -> int:
    """Fill the arrays of :class:`Played`; returns the number of rows. ``breaches``: 0 keep, 1 stop, 2 reject."""
    cells = np.empty(CELLS, np.int8)
    bits = np.zeros((2, out_stones.shape[2]), np.uint8)
    digest = np.zeros(1, np.uint64)
    marks = np.zeros(CELLS + 1, np.int64)
    stones = np.empty(CELLS, np.int64)
    seen = np.empty(MOST_MOVES + 1, np.uint64)
    white_to_play = np.uint64(0x5851F42D4C957F2D)
    rows = 0
    told = 0
    for game in range(len(wanted)):
        if not wanted[game]:
            outcome[game] = 1
            continue
        size = sizes[game]
        clear(cells, bits, digest, size)
        begin, told_begin = rows, told
        record[told] = size
        told += 1
        set_up = placed[game] > 0
        for place in range(placed[game]):
            put(cells, bits, digest, frame, _STARS[size, placed[game], place], 0)
        ko, ko_colour = NO_KO, 0
        passes = 0
        last_colour = -1
        verdict = 0
        event = first[game]
        while event < first[game + 1]:
            number = rows - begin
            kind = kinds[event]
            if kind >= ADD_BLACK:
                last = event
                while last < first[game + 1] and kinds[last] >= ADD_BLACK and nodes[last] == nodes[event]:
                    last += 1
                if number:
                    counts[game, 5] += 1
                    if breaches[5]:
                        verdict = 6 if breaches[5] == 2 else -1
                        break
                verdict = _set_up((event, last), kinds, points, size, frame, cells, bits, digest)
                if verdict:
                    break
                counts[game, 6] += remove_dead(cells, bits, digest, marks, stones, frame)
                ko = NO_KO
                set_up = True
                event = last
                continue
            if number == MOST_MOVES:
                verdict = 9
                break
            column, row = points[event, 0], points[event, 1]
            is_pass = column == NO_POINT or (
                column == _PASS_LETTERS and row == _PASS_LETTERS and size <= _PASS_LETTERS
            )
            if not is_pass and (column >= size or row >= size):
                verdict = 7
                break
            if passes >= 2:
                counts[game, 4] += 1
                if breaches[4]:
                    counts[game, 4] = 1
                    verdict = -1
                    break
            for place in range(bits.shape[1]):
                out_stones[rows, 0, place] = bits[0, place]
                out_stones[rows, 1, place] = bits[1, place]
            out_state[rows, TO_PLAY] = kind
            out_state[rows, SIZE] = size
            out_state[rows, KO] = -1
            if ko != NO_KO and ko_colour == kind:
                out_state[rows, KO] = (ko // STRIDE - 1) * frame + ko % STRIDE - 1
            out_state[rows, MOVE_NUMBER] = number
            if len(out_liberties):
                liberty_planes(cells, marks, stones, frame, out_liberties[rows])
            told_row = told
            if set_up:
                record[told] = -1
                for word in range(4):
                    record[told + 1 + word] = np.int16(
                        (digest[0] >> np.uint64(16 * word)) & np.uint64(0xFFFF)
                    )
                told += 5
            if superko[game]:
                seen[number] = digest[0] ^ (
                    white_to_play if superko[game] == 2 and kind == 1 else np.uint64(0)
                )
            if is_pass:
                out_move[rows] = frame * frame
                record[told] = kind * 1024 + 1023
                ko = NO_KO
                passes += 1
                counts[game, 7] += 1
            else:
                cell = (row + 1) * STRIDE + column + 1
                out_move[rows] = row * frame + column
                record[told] = kind * 1024 + row * size + column
                breach = -1
                if cells[cell] != EMPTY:
                    breach = 0
                    put(cells, bits, digest, frame, cell, EMPTY)
                elif cell == ko and kind == ko_colour:
                    breach = 2
                if breach >= 0:
                    counts[game, breach] += 1
                    if breaches[breach]:
                        verdict = 2 + breach if breaches[breach] == 2 else -1
                        told = told_row
                        break
                captured, lost, ko = play(cells, bits, digest, marks, stones, frame, cell, kind)
                ko_colour = 1 - kind
                breach = -1
                if lost and not suicide_allowed[game]:
                    breach = 1
                elif superko[game] and captured + lost:
                    now = digest[0] ^ (white_to_play if superko[game] == 2 and kind == 0 else np.uint64(0))
                    for earlier in range(number + 1):
                        if seen[earlier] == now:
                            breach = 3
                            break
                if breach >= 0:
                    counts[game, breach] += 1
                    if breaches[breach]:
                        verdict = 2 + breach if breaches[breach] == 2 else -1
                        told = told_row
                        break
                passes = 0
                counts[game, 8] += captured
            if kind == last_colour:
                alternating[game] = False
            last_colour = kind
            told += 1
            rows += 1
            set_up = False
            event += 1
        if verdict <= 0 and rows - begin < min_moves:
            verdict = 10
        if verdict > 0:
            outcome[game], trouble[game] = verdict, min(event, len(kinds) - 1)
            rows, told = begin, told_begin
        spans[game, 0], spans[game, 1] = begin, rows - begin
        record_spans[game, 0], record_spans[game, 1] = told_begin, told
    return rows
