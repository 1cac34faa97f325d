"""Play the games of a unit, in compiled code: one row per move, with the position before it."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.filters import FilterSection
from outofcore.domains.go.play.board import (
    EMPTY,
    NO_KO,
    STRIDE,
    Bits,
    Board,
    Words,
    clear,
    new_board,
    play,
    put,
    remove_dead,
)
from outofcore.domains.go.schema import KO, MOVE_NUMBER, SIZE, TO_PLAY, plane_bytes
from outofcore.domains.go.sgf.reader import ADD_BLACK, ADD_EMPTY, NO_POINT, MainLines
from outofcore.ndarrays import Ints
from outofcore.system.compilation import inlined_kernel, inner_kernel, kernel, variable

MOST_MOVES = 32_767

COUNTED = ("occupied", "suicide", "ko", "superko", "late_setup", "after_end", "setup_captures", "passes", "captures")
"""Counts of each game, by column; the first five are illegal, and end the game."""
OCCUPIED, SUICIDE, KO_RETAKEN, SUPERKO, LATE_SETUP, AFTER_END, SETUP_CAPTURES, PASSES, CAPTURES = range(len(COUNTED))
_PASS_LETTERS = 19  # tt, on boards without that point


class PlayResult(IntEnum):
    """Result of playing a game; from ``OCCUPIED`` on five that are illegal, in the order of :data:`COUNTED`."""

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


_STOPPED = -1  # kept up to there
_WHITE_TO_PLAY = np.uint64(0x5851F42D4C957F2D)
_NOTHING = np.uint64(0)


SIDE, SUICIDE_ALLOWED, REPETITION = range(3)
"""How a game is played, by column.

Side of the board, 0: the game is passed over; whether suicide is allowed; which repetition is forbidden: 0 none, 1 of
the position, 2 of the position with the same side to play.
"""


class Played(NamedTuple):
    """Rows of the kept games, consecutive, and the outcome of each game."""

    stones: Bits  # (rows, 2, bytes): black and white stones before the move, packed bits
    state: npt.NDArray[np.int16]  # (rows, 4): STATE_COLUMNS
    move: npt.NDArray[np.int16]  # (rows,): point in the frame; their number for a pass
    outcome: Bits  # (games,): PlayResult
    trouble: Ints  # (games,): event at which a rejected game failed
    rows: Ints  # (games, 2): first row and number of rows
    counts: npt.NDArray[np.int32]  # (games, columns): COUNTED
    alternating: npt.NDArray[np.bool_]  # (games,): the colours take turns
    record: npt.NDArray[np.int16]  # size, setup and moves of the games, independent of the frame
    record_spans: Ints  # (games, 2): [first, end) of each game in ``record``


def replay(games: MainLines, rules: Ints, filters: FilterSection) -> Played:
    """Play games from their main lines; ``rules`` are (games, 3), ``filters`` decide what an illegal move costs."""
    count = len(rules)
    before = np.concatenate(([0], np.cumsum(games.kind[: games.first[-1]] < ADD_BLACK)))
    moves = int(np.minimum(np.diff(before[games.first]), MOST_MOVES)[rules[:, SIDE] > 0].sum())
    width = plane_bytes(filters.frame)
    played = Played(
        stones=np.empty((moves, 2, width), np.uint8),
        state=np.empty((moves, 4), np.int16),
        move=np.empty(moves, np.int16),
        outcome=np.zeros(count, np.uint8),
        trouble=np.zeros(count, np.int64),
        rows=np.zeros((count, 2), np.int64),
        counts=np.zeros((count, len(COUNTED)), np.int32),
        alternating=np.ones(count, np.bool_),
        record=np.empty(6 * moves + count, np.int16),
        record_spans=np.zeros((count, 2), np.int64),
    )
    seen = np.empty(MOST_MOVES + 1, np.uint64)
    stops = filters.illegal == "stop"
    rows = _play(games, rules, stops, filters.min_moves, new_board(filters.frame), seen, played)
    return played._replace(**{name: getattr(played, name)[:rows] for name in ("stones", "state", "move")})


@inner_kernel
def _set_up(events: tuple[int, int], games: MainLines, size: int, board: Board) -> int:
    """Apply the setup of one node; returns the :class:`PlayResult` that forbids it, or that of a game that is kept."""
    kinds, points, given = games.kind, games.points, board.notes
    given[:] = -1
    for event in range(events[0], events[1]):
        kind = kinds[event]
        low_column, high_column = min(points[event, 0], points[event, 2]), max(points[event, 0], points[event, 2])
        low_row, high_row = min(points[event, 1], points[event, 3]), max(points[event, 1], points[event, 3])
        if high_column >= size or high_row >= size:
            return PlayResult.OFF_BOARD
        for row in range(low_row, high_row + 1):
            for column in range(low_column, high_column + 1):
                cell = (row + 1) * STRIDE + column + 1
                if given[cell] >= 0 and given[cell] != kind:
                    return PlayResult.AMBIGUOUS_NODE
                given[cell] = kind
                put(board, cell, EMPTY if kind == ADD_EMPTY else kind - ADD_BLACK)
    return PlayResult.KEPT


@inner_kernel
def _situation(digest: Words, superko: int, to_play: int) -> Any:
    """Hash of the position, with the side to play if the superko rule requires it."""
    return digest[0] ^ (_WHITE_TO_PLAY if superko == 2 and to_play == 1 else _NOTHING)


@inner_kernel
def _seen_before(seen: Words, count: int, now: Any) -> bool:
    for earlier in range(count):  # noqa: SIM110 - any() of a generator cannot be compiled
        if seen[earlier] == now:
            return True
    return False


@inner_kernel
def _record_setup(record: npt.NDArray[np.int16], recorded: int, digest: Words) -> int:
    """Append the board after setup to the record; returns the record's new end."""
    record[recorded] = -1
    for word in range(4):
        record[recorded + 1 + word] = np.int16((digest[0] >> np.uint64(16 * word)) & np.uint64(0xFFFF))
    return recorded + 5


@inlined_kernel
def _write_position(played: Played, row: int, board: Board, size: int, kind: int, number: int, forbidden: int) -> None:
    """Write the row of a move but for the move itself."""
    for place in range(board.bits.shape[1]):
        played.stones[row, 0, place] = board.bits[0, place]
        played.stones[row, 1, place] = board.bits[1, place]
    ko = -1 if forbidden == NO_KO else (forbidden // STRIDE - 1) * board.frame + forbidden % STRIDE - 1
    state = played.state[row]
    state[TO_PLAY], state[SIZE], state[KO], state[MOVE_NUMBER] = kind, size, ko, number


@inlined_kernel
def _place(
    board: Board, cell: int, kind: int, forbidden: int, suicide: int, superko: int, seen: Words, number: int
) -> tuple[int, int, int]:
    """Play a stone.

    Returns the column in ``COUNTED`` of what makes it illegal, or -1, the captured stones and the new ko.
    """
    if board.cells[cell] != EMPTY:
        return OCCUPIED, 0, NO_KO
    if cell == forbidden:
        return KO_RETAKEN, 0, NO_KO
    captured, lost, ko = play(board, cell, kind)
    if lost and not suicide:
        return SUICIDE, captured, ko
    # A position can come back without a capture: send two, lose them, retake, send the second again.
    if superko and _seen_before(seen, number + 1, _situation(board.digest, superko, 1 - kind)):
        return SUPERKO, captured, ko
    return -1, captured, ko


@inner_kernel
def _play_game(
    game: int,
    games: MainLines,
    rules: Ints,
    stops: bool,  # noqa: FBT001
    board: Board,
    seen: Words,
    played: Played,
    begin: int,
    recorded: int,
) -> tuple[int, int, int, int]:
    """Play one game: its rows from ``begin``, its record from ``recorded``.

    Returns what :class:`PlayResult` says, or ``_STOPPED``; the event that was reached; and the ends of rows and record.
    """
    size, superko = rules[game, SIDE], rules[game, REPETITION]
    record, counts = played.record, played.counts[game]
    clear(board, size)
    record[recorded] = size
    recorded += 1
    set_up, ko, ko_colour, passes, last_colour = False, variable(NO_KO), 0, 0, -1
    row = begin
    event, end = games.first[game], games.first[game + 1]
    while event < end:
        number, kind = row - begin, games.kind[event]
        if kind >= ADD_BLACK:
            last = event
            while last < end and games.kind[last] >= ADD_BLACK and games.node[last] == games.node[event]:
                last += 1
            if number:
                counts[LATE_SETUP] += 1
                return _STOPPED if stops else PlayResult.OCCUPIED + LATE_SETUP, event, row, recorded
            verdict = _set_up((event, last), games, size, board)
            if verdict != PlayResult.KEPT:
                return verdict, event, row, recorded
            counts[SETUP_CAPTURES] += remove_dead(board)
            set_up, event = True, last
            continue
        if number == MOST_MOVES:
            return PlayResult.TOO_MANY_MOVES, event, row, recorded
        x, y = games.points[event, 0], games.points[event, 1]
        is_pass = x == NO_POINT or (x == _PASS_LETTERS and y == _PASS_LETTERS and size <= _PASS_LETTERS)
        if not is_pass and (x >= size or y >= size):
            return PlayResult.OFF_BOARD, event, row, recorded
        counts[AFTER_END] += passes >= 2
        forbidden = ko if ko_colour == kind else NO_KO
        _write_position(played, row, board, size, kind, number, forbidden)
        record_end = _record_setup(record, recorded, board.digest) if set_up else recorded
        if superko:
            seen[number] = _situation(board.digest, superko, kind)
        if is_pass:
            played.move[row] = board.frame * board.frame
            record[record_end] = kind * 1024 + 1023
            ko = NO_KO
            passes += 1
            counts[PASSES] += 1
        else:
            cell = (y + 1) * STRIDE + x + 1
            suicide = rules[game, SUICIDE_ALLOWED]
            breach, captured, ko = _place(board, cell, kind, forbidden, suicide, superko, seen, number)
            if breach >= 0:
                counts[breach] += 1
                return _STOPPED if stops else PlayResult.OCCUPIED + breach, event, row, recorded
            played.move[row] = y * board.frame + x
            record[record_end] = kind * 1024 + y * size + x
            ko_colour, passes = 1 - kind, 0
            counts[CAPTURES] += captured
        played.alternating[game] &= kind != last_colour
        recorded, row, event = record_end + 1, row + 1, event + 1
        last_colour, set_up = kind, False
    return PlayResult.KEPT, event, row, recorded


@kernel
def _play(
    games: MainLines,
    rules: Ints,
    stops: bool,  # noqa: FBT001
    min_moves: int,
    board: Board,
    seen: Words,
    played: Played,
) -> int:
    """Fill ``played``; returns the number of rows. ``stops``: a game is kept up to an illegal move."""
    rows = recorded = variable(0)
    for game in range(len(rules)):
        if rules[game, SIDE] == 0:
            played.outcome[game] = PlayResult.PASSED_OVER
            continue
        verdict, event, end, record_end = _play_game(game, games, rules, stops, board, seen, played, rows, recorded)
        if verdict <= 0 and end - rows < min_moves:
            verdict = PlayResult.TOO_SHORT
        if verdict > 0:
            played.outcome[game], played.trouble[game] = verdict, min(event, len(games.kind) - 1)
            end, record_end = rows, recorded
        played.rows[game, 0], played.rows[game, 1] = rows, end - rows
        played.record_spans[game, 0], played.record_spans[game, 1] = recorded, record_end
        rows, recorded = end, record_end
    return int(rows)
