"""Compiled loop that plays the games of a unit."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from outofcore.domains.go.play.board import (
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
from outofcore.domains.go.play.stars import STARS
from outofcore.domains.go.sgf.reader import ADD_BLACK, ADD_EMPTY, NO_POINT

TO_PLAY, SIZE, KO, MOVE_NUMBER = range(4)
MOST_MOVES = 32_767

COUNTED = ("occupied", "suicide", "ko", "superko", "after_end", "late_setup", "setup_captures", "passes", "captures")
"""Counts of each game, by column; the first six may be forbidden."""
OCCUPIED, SUICIDE, KO_RETAKEN, SUPERKO, AFTER_END, LATE_SETUP, SETUP_CAPTURES, PASSES, CAPTURES = range(len(COUNTED))
_PASS_LETTERS = 19  # tt, on boards without that point


class Outcome(IntEnum):
    """Result of playing a game."""

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
_KEPT, _PASSED_OVER, _SET_UP_LATE = int(Outcome.KEPT), int(Outcome.PASSED_OVER), int(Outcome.LATE_SETUP)
_OFF_BOARD, _AMBIGUOUS = int(Outcome.OFF_BOARD), int(Outcome.AMBIGUOUS_NODE)
_TOO_MANY, _TOO_SHORT = int(Outcome.TOO_MANY_MOVES), int(Outcome.TOO_SHORT)
_ILLEGAL = int(Outcome.OCCUPIED)  # the first of four, in the order of COUNTED
_KEEP, _REJECT = 0, 2
_WHITE_TO_PLAY = np.uint64(0x5851F42D4C957F2D)
_NOTHING = np.uint64(0)


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
    """Apply the setup of one node; returns 0 or the :class:`Outcome` that forbids it."""
    told = np.full(CELLS, -1, np.int64)
    for event in range(events[0], events[1]):
        low_column, high_column = (
            min(points[event, 0], points[event, 2]),
            max(points[event, 0], points[event, 2]),
        )
        low_row, high_row = min(points[event, 1], points[event, 3]), max(points[event, 1], points[event, 3])
        if high_column >= size or high_row >= size:
            return _OFF_BOARD
        for row in range(low_row, high_row + 1):
            for column in range(low_column, high_column + 1):
                cell = (row + 1) * STRIDE + column + 1
                if told[cell] >= 0 and told[cell] != kinds[event]:
                    return _AMBIGUOUS
                told[cell] = kinds[event]
                put(
                    cells,
                    bits,
                    digest,
                    frame,
                    cell,
                    EMPTY if kinds[event] == ADD_EMPTY else kinds[event] - ADD_BLACK,
                )
    return _KEPT


@njit(nogil=True, cache=True)
def _write_position(
    row: int,
    bits: npt.NDArray[np.uint8],
    colour: int,
    size: int,
    ko: int,
    number: int,
    frame: int,
    out_stones: npt.NDArray[np.uint8],
    out_state: npt.NDArray[np.int16],
) -> None:
    for place in range(bits.shape[1]):
        out_stones[row, 0, place] = bits[0, place]
        out_stones[row, 1, place] = bits[1, place]
    out_state[row, TO_PLAY] = colour
    out_state[row, SIZE] = size
    out_state[row, KO] = -1 if ko == NO_KO else (ko // STRIDE - 1) * frame + ko % STRIDE - 1
    out_state[row, MOVE_NUMBER] = number


@njit(nogil=True, cache=True)
def _situation(digest: npt.NDArray[np.uint64], superko: int, to_play: int) -> Any:
    """Hash of the position, with the side to play if the superko rule requires it."""
    return digest[0] ^ (_WHITE_TO_PLAY if superko == 2 and to_play == 1 else _NOTHING)


@njit(nogil=True, cache=True)
def _seen_before(seen: npt.NDArray[np.uint64], count: int, now: Any) -> bool:
    for earlier in range(count):  # noqa: SIM110 - any() of a generator cannot be compiled
        if seen[earlier] == now:
            return True
    return False


@njit(nogil=True, cache=True)
def _record_setup(record: npt.NDArray[np.int16], told: int, digest: npt.NDArray[np.uint64]) -> int:
    """Append the board after setup to the record; returns the record's new end."""
    record[told] = -1
    for word in range(4):
        record[told + 1 + word] = np.int16((digest[0] >> np.uint64(16 * word)) & np.uint64(0xFFFF))
    return told + 5


@njit(nogil=True, cache=True)
def play_games(
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
    rows = 0
    told = 0
    for game in range(len(wanted)):
        if not wanted[game]:
            outcome[game] = _PASSED_OVER
            continue
        size = sizes[game]
        clear(cells, bits, digest, size)
        begin, told_begin = rows, told
        record[told] = size
        told += 1
        set_up = placed[game] > 0
        for place in range(placed[game]):
            put(cells, bits, digest, frame, STARS[size, placed[game], place], 0)
        ko, ko_colour = NO_KO, 0
        passes = 0
        last_colour = -1
        verdict = _KEPT
        event = first[game]
        while event < first[game + 1]:
            number = rows - begin
            kind = kinds[event]
            if kind >= ADD_BLACK:
                last = event
                while last < first[game + 1] and kinds[last] >= ADD_BLACK and nodes[last] == nodes[event]:
                    last += 1
                if number:
                    counts[game, LATE_SETUP] += 1
                    if breaches[LATE_SETUP] != _KEEP:
                        verdict = _SET_UP_LATE if breaches[LATE_SETUP] == _REJECT else _STOPPED
                        break
                verdict = _set_up((event, last), kinds, points, size, frame, cells, bits, digest)
                if verdict:
                    break
                counts[game, SETUP_CAPTURES] += remove_dead(cells, bits, digest, marks, stones, frame)
                ko = NO_KO
                set_up = True
                event = last
                continue
            if number == MOST_MOVES:
                verdict = _TOO_MANY
                break
            column, row = points[event, 0], points[event, 1]
            is_pass = column == NO_POINT or (column == _PASS_LETTERS and row == _PASS_LETTERS and size <= _PASS_LETTERS)
            if not is_pass and (column >= size or row >= size):
                verdict = _OFF_BOARD
                break
            if passes >= 2:
                counts[game, AFTER_END] += 1
                if breaches[AFTER_END] != _KEEP:
                    counts[game, AFTER_END] = 1
                    verdict = _STOPPED
                    break
            forbidden = ko if ko_colour == kind else NO_KO
            _write_position(rows, bits, kind, size, forbidden, number, frame, out_stones, out_state)
            if len(out_liberties):
                liberty_planes(cells, marks, stones, frame, out_liberties[rows])
            told_row = told
            if set_up:
                told = _record_setup(record, told, digest)
            if superko[game]:
                seen[number] = _situation(digest, superko[game], kind)
            if is_pass:
                out_move[rows] = frame * frame
                record[told] = kind * 1024 + 1023
                ko = NO_KO
                passes += 1
                counts[game, PASSES] += 1
            else:
                cell = (row + 1) * STRIDE + column + 1
                out_move[rows] = row * frame + column
                record[told] = kind * 1024 + row * size + column
                breach = -1
                if cells[cell] != EMPTY:
                    breach = OCCUPIED
                    put(cells, bits, digest, frame, cell, EMPTY)
                elif cell == forbidden:
                    breach = KO_RETAKEN
                if breach >= 0:
                    counts[game, breach] += 1
                    if breaches[breach] != _KEEP:
                        verdict = _ILLEGAL + breach if breaches[breach] == _REJECT else _STOPPED
                        told = told_row
                        break
                captured, lost, ko = play(cells, bits, digest, marks, stones, frame, cell, kind)
                ko_colour = 1 - kind
                breach = -1
                if lost and not suicide_allowed[game]:
                    breach = SUICIDE
                    counts[game, SUICIDE] += 1
                # A position can come back without a capture: send two, lose them, retake, send the second again.
                if (breach < 0 or breaches[breach] == _KEEP) and (
                    superko[game] and _seen_before(seen, number + 1, _situation(digest, superko[game], 1 - kind))
                ):
                    breach = SUPERKO
                    counts[game, SUPERKO] += 1
                if breach >= 0 and breaches[breach] != _KEEP:
                    verdict = _ILLEGAL + breach if breaches[breach] == _REJECT else _STOPPED
                    told = told_row
                    break
                passes = 0
                counts[game, CAPTURES] += captured
            if kind == last_colour:
                alternating[game] = False
            last_colour = kind
            told += 1
            rows += 1
            set_up = False
            event += 1
        if verdict <= 0 and rows - begin < min_moves:
            verdict = _TOO_SHORT
        if verdict > 0:
            outcome[game], trouble[game] = verdict, min(event, len(kinds) - 1)
            rows, told = begin, told_begin
        spans[game, 0], spans[game, 1] = begin, rows - begin
        record_spans[game, 0], record_spans[game, 1] = told_begin, told
    return rows
