"""Walk through the text of games: tags, main-line tokens, notes and markers, in compiled code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from outofcore.domains.chess.pgn.lexis import (
    BLANK,
    BYTE_ORDER_MARK,
    CONFLICT,
    KIND,
    LINE_END,
    NO_RESULT,
    Bytes,
    has_letter,
    is_byte_order_mark,
    is_glued,
    is_quoted_event,
    line_end,
    nag_end,
    result_code,
    tag_name_end,
    tag_value,
    token_end,
)
from outofcore.domains.chess.pgn.notes import NO_CLOCK, NO_EVALUATION, NO_MATE, read_note
from outofcore.domains.chess.pgn.remarks import is_remark, move_end

NOT_CASTLING, KINGSIDE, QUEENSIDE = 0, 1, 2


@njit(nogil=True, cache=True)
def _tag_number(data: Bytes, i: int, j: int, names: Bytes) -> int:
    """Row of ``names`` equal to ``data[i:j]``, or -1."""
    for row in range(names.shape[0]):
        if j - i >= names.shape[1] or names[row, j - i] != 0 or names[row, 0] != data[i]:
            continue
        k = 1
        while k < j - i and names[row, k] == data[i + k]:
            k += 1
        if k == j - i:
            return row
    return -1


@njit(nogil=True, cache=True)
def _move_bounds(data: Bytes, i: int, j: int) -> tuple[int, int]:
    """The move in a token without number (``12.Nf3``), leading dots and remarks (``Nf3!?``); may be empty.

    Four zeros are a null move, also inside a number, as in python-chess.
    """
    k, zeros = i, 0
    while k < j and ord("0") <= data[k] <= ord("9"):
        zeros = zeros + 1 if data[k] == ord("0") else 0
        k += 1
        if zeros == 4:
            return k - 4, k
    if k < j and data[k] == ord("."):
        i = k
        while i < j and data[i] == ord("."):
            i += 1
        k = i
    stop = move_end(data, i, j)
    return (i, stop) if stop > k or k == i else (j, j)


@njit(nogil=True, cache=True)
def _castling_side(data: Bytes, i: int, j: int) -> int:
    """Castling side of ``data[i:j]``, written with letters or zeros."""
    if j - i < 3 or data[i + 1] != ord("-") or not (data[i] == ord("O") or data[i] == ord("0")):
        return NOT_CASTLING
    if data[i + 2] != data[i]:
        return NOT_CASTLING
    return QUEENSIDE if j - i >= 5 and data[i + 3] == ord("-") and data[i + 4] == data[i] else KINGSIDE


@njit(nogil=True, cache=True)
def read_text(
    data: Bytes,
    bounds: npt.NDArray[np.int64],
    names: Bytes,
    tags: npt.NDArray[np.int32],
    bodies: npt.NDArray[np.int64],
    results: Bytes,
    text: Bytes,
    text_offsets: npt.NDArray[np.int32],
    token_offsets: npt.NDArray[np.int32],
    clock: npt.NDArray[np.int32],
    evaluation: npt.NDArray[np.int16],
    mate: npt.NDArray[np.int8],
    castling: Bytes,
) -> None:
    """Read the games whose text is between ``bounds``; fills the other arrays, which are those of ``Games``."""
    written, token = 0, 0
    for game in range(results.size):
        first = token
        depth, moved, after_move = 0, False, False
        in_comment, at_line_start, in_tags = False, True, True
        result = NO_RESULT
        i, end = bounds[game], bounds[game + 1]
        while i < end:
            c = data[i]
            kind = KIND[c]
            if in_comment:
                if c == ord("[") and depth == 0 and token > first and i + 5 < end and data[i + 1] == ord("%"):
                    read_note(
                        data,
                        i,
                        end,
                        clock[token - 1 : token],
                        evaluation[token - 1 : token],
                        mate[token - 1 : token],
                    )
                if not (at_line_start and c == ord("[") and is_quoted_event(data, i)):
                    in_comment = c != ord("}")
                    at_line_start = kind == LINE_END
                    i += 1
                    continue
                in_comment = False
            if kind in (LINE_END, BLANK):
                at_line_start = at_line_start or kind == LINE_END
                i += 1
                continue
            if c == BYTE_ORDER_MARK[0] and is_byte_order_mark(data, i):
                i += 3
                continue
            if c == ord(";") or (at_line_start and c == ord("%")):
                i = line_end(data, i)
                continue
            if in_tags and at_line_start and c == ord("["):
                name_end = tag_name_end(data, i)
                if name_end:
                    value, value_end, tag_end = tag_value(data, name_end)
                    number = _tag_number(data, i + 1, name_end, names)
                    if number >= 0 and value >= 0:
                        tags[game, number, 0] = value
                        tags[game, number, 1] = value_end
                    bodies[game] = i = tag_end
                    continue
            at_line_start = False
            in_tags = in_tags and c == ord("{")
            if c == ord("{"):
                in_comment = True
                i += 1
            elif c == ord("("):
                depth += moved
                i += 1
            elif c == ord(")"):
                depth -= depth > 0
                i += 1
            elif c == ord("}"):
                i += 1
            elif c == ord("$") and not is_glued(data, i):
                i = nag_end(data, i)
            else:
                begin, i = i, token_end(data, i + (c == ord("$")))
                if depth > 0:
                    continue
                moved = moved or has_letter(data, begin, i)
                if i - begin == 3 or i - begin == 7 or i - begin == 1:
                    code = result_code(data, begin, i)
                    if code != NO_RESULT:
                        result = code if result in (NO_RESULT, code) else CONFLICT
                        continue
                if result != NO_RESULT:
                    continue  # text after a marker that does not begin a game is not a move
                k, stop = _move_bounds(data, begin, i)
                if k == stop:
                    after_move = after_move and not ord("0") <= data[begin] <= ord("9")
                    continue
                # After a number comes a move: in "2. N f3" the letter is a knight.
                if after_move and k == begin and is_remark(data, k, stop):
                    continue
                after_move = True
                clock[token], evaluation[token], mate[token] = NO_CLOCK, NO_EVALUATION, NO_MATE
                castling[token] = _castling_side(data, k, stop)
                token += 1
                while k < stop:
                    text[written] = data[k]
                    written += 1
                    k += 1
                text[written] = ord(" ")
                written += 1
        results[game] = result
        text_offsets[game + 1] = written
        token_offsets[game + 1] = token
