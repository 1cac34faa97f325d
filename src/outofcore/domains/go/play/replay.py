"""Play the games of a unit, in compiled code: one row per move, with the position before it."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.compilation import kernel
from outofcore.domains.go.params import FilterSection
from outofcore.domains.go.play.board import (
    EMPTY,
    NO_KO,
    STRIDE,
    Bits,
    Board,
    Ints,
    Words,
    clear,
    liberty_planes,
    new_board,
    play,
    put,
    remove_dead,
)
from outofcore.domains.go.play.stars import STARS
from outofcore.domains.go.schema import KO, MOVE_NUMBER, SIZE, TO_PLAY, plane_bytes
from outofcore.domains.go.sgf.reader import ADD_BLACK, ADD_EMPTY, NO_POINT, Games

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
_BREACHES = {"keep": 0, "stop": 1, "reject": 2}
_KEEP, _REJECT = _BREACHES["keep"], _BREACHES["reject"]
_WHITE_TO_PLAY = np.uint64(0x5851F42D4C957F2D)
_NOTHING = np.uint64(0)


class Rules(NamedTuple):
    """How the games of a unit are played, (games,) int64 each."""

    size: Ints  # side of the board; 0: the game is passed over
    placed: Ints  # handicap stones put on star points first
    suicide_allowed: Ints  # 0 or 1
    superko: Ints  # 0 none, 1 positional, 2 situational


class Played(NamedTuple):
    """Rows of the kept games, consecutive, and the outcome of each game."""

    stones: Bits  # (rows, 2, bytes): black and white stones before the move, packed bits
    state: npt.NDArray[np.int16]  # (rows, 4): STATE_COLUMNS
    move: npt.NDArray[np.int16]  # (rows,): point in the frame; their number for a pass
    liberties: Bits  # (rows, 3, bytes): stones with 1, 2, 3 liberties; no rows unless requested
    outcome: Bits  # (games,): Outcome
    trouble: Ints  # (games,): event at which a rejected game failed
    rows: Ints  # (games, 2): first row and number of rows
    counts: npt.NDArray[np.int32]  # (games, columns): COUNTED
    alternating: npt.NDArray[np.bool_]  # (games,): the colours take turns
    record: npt.NDArray[np.int16]  # size, setup and moves of the games, independent of the frame
    record_spans: Ints  # (games, 2): [first, end) of each game in ``record``


def replay(games: Games, rules: Rules, filters: FilterSection, *, liberties: bool) -> Played:
    """Play games from their main lines; ``filters`` decide about illegal moves."""
    count = len(rules.size)
    before = np.concatenate(([0], np.cumsum(games.kind[: games.first[-1]] < ADD_BLACK)))
    moves = int(np.minimum(np.diff(before[games.first]), MOST_MOVES)[rules.size > 0].sum())
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
    seen = np.empty(MOST_MOVES + 1, np.uint64)
    rows = _play(games, rules, breaches, filters.min_moves, new_board(filters.frame), seen, played)
    return played._replace(**{name: getattr(played, name)[:rows] for name in ("stones", "state", "move", "liberties")})


@kernel
def _set_up(events: tuple[int, int], games: Games, size: int, board: Board) -> int:
    """Apply the setup of one node; returns 0 or the :class:`Outcome` that forbids it."""
    kinds, points, given = games.kind, games.points, board.notes
    given[:] = -1
    for event in range(events[0], events[1]):
        kind = kinds[event]
        low_column, high_column = min(points[event, 0], points[event, 2]), max(points[event, 0], points[event, 2])
        low_row, high_row = min(points[event, 1], points[event, 3]), max(points[event, 1], points[event, 3])
        if high_column >= size or high_row >= size:
            return _OFF_BOARD
        for row in range(low_row, high_row + 1):
            for column in range(low_column, high_column + 1):
                cell = (row + 1) * STRIDE + column + 1
                if given[cell] >= 0 and given[cell] != kind:
                    return _AMBIGUOUS
                given[cell] = kind
                put(board, cell, EMPTY if kind == ADD_EMPTY else kind - ADD_BLACK)
    return _KEPT


@kernel
def _situation(digest: Words, superko: int, to_play: int) -> Any:
    """Hash of the position, with the side to play if the superko rule requires it."""
    return digest[0] ^ (_WHITE_TO_PLAY if superko == 2 and to_play == 1 else _NOTHING)


@kernel
def _seen_before(seen: Words, count: int, now: Any) -> bool:
    for earlier in range(count):  # noqa: SIM110 - any() of a generator cannot be compiled
        if seen[earlier] == now:
            return True
    return False


@kernel
def _record_setup(record: npt.NDArray[np.int16], recorded: int, digest: Words) -> int:
    """Append the board after setup to the record; returns the record's new end."""
    record[recorded] = -1
    for word in range(4):
        record[recorded + 1 + word] = np.int16((digest[0] >> np.uint64(16 * word)) & np.uint64(0xFFFF))
    return recorded + 5


@kernel
def _play(games: Games, rules: Rules, breaches: Ints, min_moves: int, board: Board, seen: Words, played: Played) -> int:
    """Fill ``played``; returns the number of rows. ``breaches`` of the first six in ``COUNTED``: keep, stop, reject."""
    first, kinds, points, nodes = games.first, games.kind, games.points, games.node
    sizes, handicaps, suicide_allowed, superkos = rules.size, rules.placed, rules.suicide_allowed, rules.superko
    out_stones, out_state, out_move, out_liberties = played.stones, played.state, played.move, played.liberties
    outcome, trouble, spans, counts = played.outcome, played.trouble, played.rows, played.counts
    alternating, record, record_spans = played.alternating, played.record, played.record_spans
    cells, bits, digest, frame = board.cells, board.bits, board.digest, board.frame
    rows = 0
    recorded = 0
    for game in range(len(sizes)):
        if sizes[game] == 0:
            outcome[game] = _PASSED_OVER
            continue
        size, superko = sizes[game], superkos[game]
        clear(board, size)
        begin, record_begin = rows, recorded
        record[recorded] = size
        recorded += 1
        placed = handicaps[game]
        set_up = placed > 0
        for place in range(placed):
            put(board, STARS[size, placed, place], 0)
        ko, ko_colour = NO_KO, 0
        passes = 0
        last_colour = -1
        verdict = _KEPT
        event, end = first[game], first[game + 1]
        while event < end:
            number = rows - begin
            kind = kinds[event]
            if kind >= ADD_BLACK:
                last = event
                while last < end and kinds[last] >= ADD_BLACK and nodes[last] == nodes[event]:
                    last += 1
                if number:
                    counts[game, LATE_SETUP] += 1
                    if breaches[LATE_SETUP] != _KEEP:
                        verdict = _SET_UP_LATE if breaches[LATE_SETUP] == _REJECT else _STOPPED
                        break
                verdict = _set_up((event, last), games, size, board)
                if verdict:
                    break
                counts[game, SETUP_CAPTURES] += remove_dead(board)
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
            for place in range(bits.shape[1]):
                out_stones[rows, 0, place] = bits[0, place]
                out_stones[rows, 1, place] = bits[1, place]
            out_state[rows, TO_PLAY] = kind
            out_state[rows, SIZE] = size
            out_state[rows, KO] = (
                -1 if forbidden == NO_KO else (forbidden // STRIDE - 1) * frame + forbidden % STRIDE - 1
            )
            out_state[rows, MOVE_NUMBER] = number
            if len(out_liberties):
                liberty_planes(board, out_liberties[rows])
            record_row = recorded
            if set_up:
                recorded = _record_setup(record, recorded, digest)
            if superko:
                seen[number] = _situation(digest, superko, kind)
            if is_pass:
                out_move[rows] = frame * frame
                record[recorded] = kind * 1024 + 1023
                ko = NO_KO
                passes += 1
                counts[game, PASSES] += 1
            else:
                cell = (row + 1) * STRIDE + column + 1
                out_move[rows] = row * frame + column
                record[recorded] = kind * 1024 + row * size + column
                breach = -1
                if cells[cell] != EMPTY:
                    breach = OCCUPIED
                    put(board, cell, EMPTY)
                elif cell == forbidden:
                    breach = KO_RETAKEN
                if breach >= 0:
                    counts[game, breach] += 1
                    if breaches[breach] != _KEEP:
                        verdict = _ILLEGAL + breach if breaches[breach] == _REJECT else _STOPPED
                        recorded = record_row
                        break
                captured, lost, ko = play(board, cell, kind)
                ko_colour = 1 - kind
                breach = -1
                if lost and not suicide_allowed[game]:
                    breach = SUICIDE
                    counts[game, SUICIDE] += 1
                # A position can come back without a capture: send two, lose them, retake, send the second again.
                if (breach < 0 or breaches[breach] == _KEEP) and (
                    superko and _seen_before(seen, number + 1, _situation(digest, superko, 1 - kind))
                ):
                    breach = SUPERKO
                    counts[game, SUPERKO] += 1
                if breach >= 0 and breaches[breach] != _KEEP:
                    verdict = _ILLEGAL + breach if breaches[breach] == _REJECT else _STOPPED
                    recorded = record_row
                    break
                passes = 0
                counts[game, CAPTURES] += captured
            if kind == last_colour:
                alternating[game] = False
            last_colour = kind
            recorded += 1
            rows += 1
            set_up = False
            event += 1
        if verdict <= 0 and rows - begin < min_moves:
            verdict = _TOO_SHORT
        if verdict > 0:
            outcome[game], trouble[game] = verdict, min(event, len(kinds) - 1)
            rows, recorded = begin, record_begin
        spans[game, 0], spans[game, 1] = begin, rows - begin
        record_spans[game, 0], record_spans[game, 1] = record_begin, recorded
    return rows
