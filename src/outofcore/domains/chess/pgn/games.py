"""Read PGN in one pass: where games begin, their tags, move tokens, termination markers, clocks and evaluations.

A game surely begins

* at a tag after moves and a result, where the moves are numbered or no other words and more than one, or after text
  without any tag;
* at a tag that repeats the first one of the section;
* at an ``Event`` after another one, after numbered moves, after a result, or inside a comment that was never closed;
* at ``1.``, or at a line of prose, after numbered moves and a result, or after those of a game without tags;
* at a line that begins with ``1.`` in a game without tags.

Everything up to the next such place is one game. Where something speaks against that, a tag that is not whole, a tag or
a second value of it in an odd place, moves after the result, numbers that do not count the moves, the game has one of
:data:`FAULTS`, and is rejected with all its bytes.

Empty lines do not end games: some programs put them among the tags or into the moves. Nothing before a start affects
how the text after it is read, so a file may be cut at any start.

Main-line moves are copied as tokens separated by blanks, without numbers, comments, variations or glyphs. The engine
must turn every token into one move, so nothing in the text is skipped unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.pgn.lexis import (
    BLANK,
    CONFLICT,
    KIND,
    LINE_END,
    NO_RESULT,
    Bytes,
    black_begins,
    decoded,
    first_move_number,
    has_letter,
    is_byte_order_mark,
    is_digit,
    is_glued,
    is_like_a_move,
    is_move_one,
    is_of_black,
    is_word,
    line_end,
    move_number,
    nag_end,
    result_code,
    same,
    tag_name_end,
    tag_value,
    token_end,
)
from outofcore.domains.chess.pgn.notes import Notes, clear, new_notes, read_engine_comment, read_note
from outofcore.domains.chess.pgn.remarks import is_remark, move_bounds
from outofcore.system.compilation import inner_kernel, kernel, variable

TAGS = (
    "Event",
    "White",
    "Black",
    "Date",
    "Result",
    "WhiteElo",
    "BlackElo",
    "UTCDate",
    "UTCTime",
    "TimeControl",
    "Termination",
    "Variant",
    "FEN",
    "SetUp",
    "WhiteTitle",
    "BlackTitle",
    "WhiteRatingDiff",
)
"""The tags that are read; the last occurrence of a tag counts."""

LOOKAHEAD = 1024
"""A start this far from the end of the data is certain, whatever follows."""

FAULTS = (
    "",
    "a line among the tags is not a whole tag",
    "a tag follows text that is no finished game",
    "a tag has two values",
    "moves follow the result",
    "the numbers do not count the moves",
)
"""Why a piece of text is not surely one game; the first that is met counts."""

_EVENT, _FEN = TAGS.index("Event"), TAGS.index("FEN")
_OUTSIDE, _IN_TAGS, _IN_MOVES, _OVER = 0, 1, 2, 3
_PART_OF_TAG, _STRAY_TAG, _TWO_VALUES, _AFTER_RESULT, _NUMBERS = 1, 2, 3, 4, 5


def _table(names: Collection[str]) -> Bytes:
    """Names of tags, a row each, that end in a zero."""
    return np.array([list(name.ljust(max(map(len, names)) + 1, "\0").encode()) for name in names], np.uint8)


_NAMES = _table(TAGS)


class Games(NamedTuple):
    """The n games of a piece of PGN, with m tokens in all."""

    data: Bytes
    starts: npt.NDArray[np.int64]  # (n,): start of each game
    ends: npt.NDArray[np.int64]  # (n,): start of the next in the same file, or the end of the file
    names: Bytes  # names of the tags that are read: TAGS, then those that the settings add
    tags: npt.NDArray[np.int32]  # (n, len(names), 2): span of each tag's value in ``data``; -1 if missing
    bodies: npt.NDArray[np.int64]  # (n,): end of each game's tags
    results: Bytes  # (n,): termination marker after the moves, a lexis code
    faults: Bytes  # (n,): index into FAULTS
    text: Bytes  # the tokens, each followed by a blank
    text_offsets: npt.NDArray[np.int32]  # (n + 1,): start of each game in ``text``
    token_offsets: npt.NDArray[np.int32]  # (n + 1,): number of each game's first token
    notes: Notes  # of each token

    @property
    def plies(self) -> npt.NDArray[np.int32]:
        """(n,) int32: tokens of each game."""
        return np.diff(self.token_offsets)

    def spans(self, tag: str) -> npt.NDArray[np.int32]:
        """(n, 2) int32: span of a tag's value in ``data``; -1 if missing."""
        names = (*TAGS, *(bytes(name).rstrip(b"\0").decode() for name in self.names[len(TAGS) :]))
        return self.tags[:, names.index(tag)]

    def tag(self, game: int, name: str) -> str | None:
        """Value of a tag as UTF-8 or else Latin-1; None if missing."""
        begin, end = self.spans(name)[game]
        return decoded(self.data[begin:end].tobytes()) if begin >= 0 else None

    def start_fen(self, game: int) -> str:
        """The game's own start position, or an empty text."""
        return (self.tag(game, "FEN") or "").replace('"', "").strip()

    def body(self, game: int) -> str:
        """Text of a game after its tags."""
        return decoded(self.data[self.bodies[game] : self.ends[game]].tobytes())

    def tokens(self, game: int) -> list[str]:
        """Moves of a game as written; only spaces separate them, not other Unicode white space."""
        text = self.text[self.text_offsets[game] : self.text_offsets[game + 1]]
        return decoded(text.tobytes()).split(" ")[:-1]


def game_starts(data: Bytes) -> npt.NDArray[np.int64]:
    """Offsets at which games begin, in PGN from the beginning of a file or of a game, (n,)."""
    return read_games(data).starts


def read_games(
    data: Bytes,
    bounds: npt.NDArray[np.int64] | None = None,
    *,
    more_tags: Iterable[str] = (),
    engine_comments: bool = False,
) -> Games:
    """Read PGN from the beginning of a file or of a game; the last game ends with the data.

    ``bounds`` has the start of each of several files in ``data``, and the end of the last. ``more_tags`` are read next
    to :data:`TAGS`; ``engine_comments`` also reads those of engine matches.
    """
    files = np.array([0, data.size]) if bounds is None else bounds
    names = _table(dict.fromkeys((*TAGS, *more_tags)))
    room = 64 + data.size // 256
    count = -1
    while count < 0:
        games = Games(
            data=data,
            starts=np.empty(room, np.int64),
            ends=np.empty(room, np.int64),
            names=names,
            tags=np.full((room, len(names), 2), -1, np.int32),
            bodies=np.empty(room, np.int64),
            results=np.full(room, NO_RESULT, np.uint8),
            faults=np.zeros(room, np.uint8),
            text=np.empty(data.size + data.size // 2 + 2, np.uint8),  # tokens such as ``$e$e`` may follow each other
            text_offsets=np.empty(room + 1, np.int32),
            token_offsets=np.empty(room + 1, np.int32),
            notes=new_notes(data.size // 2 + 1),
        )
        count = _read(games, files, engine_comments)
        room *= 8  # games shorter than any real one
    tokens = int(games.token_offsets[count])
    lengths = dict.fromkeys(("starts", "ends", "tags", "bodies", "results", "faults"), count)
    lengths |= dict.fromkeys(("text_offsets", "token_offsets"), count + 1)
    lengths["text"] = int(games.text_offsets[count])
    notes = games.notes._replace(**{name: column[:tokens] for name, column in games.notes._asdict().items()})
    return games._replace(notes=notes, **{name: getattr(games, name)[:length] for name, length in lengths.items()})


@inner_kernel
def _tag_number(data: Bytes, i: int, j: int, names: Bytes) -> int:
    """Row of ``data[i:j]`` in the names, or -1."""
    for row in range(names.shape[0]):
        if j - i >= names.shape[1] or names[row, j - i] != 0 or names[row, 0] != data[i]:
            continue
        k = 1
        while k < j - i and names[row, k] == data[i + k]:
            k += 1
        if k == j - i:
            return row
    return -1


@inner_kernel
def _is_quoted_event(data: Bytes, i: int) -> bool:
    """Whether a tag named Event opens at ``i``, its value in quotes."""
    end = tag_name_end(data, i) if data[i] == ord("[") else 0
    return end > 0 and _tag_number(data, i + 1, end, _NAMES) == _EVENT and tag_value(data, end)[0] >= 0


@kernel
def _read(games: Games, bounds: Any, engine_comments: Any) -> int:
    """Fill the arrays of ``games`` from its data; returns the number of games, -1 if there is no room for them."""
    count = token = written = variable(0)
    for file in range(bounds.size - 1):
        text = games.data[: bounds[file + 1]]
        first = count
        count, token, written = _read_file(text, bounds[file], games, count, token, written, engine_comments)
        if count < 0:
            return -1
        if count > first:
            games.ends[count - 1] = text.size
    games.text_offsets[count] = written
    games.token_offsets[count] = token
    return int(count)


@inner_kernel
def _read_file(
    data: Bytes, i: int, games: Games, count: int, token: int, written: int, engine_comments: Any
) -> tuple[int, int, int]:
    """Add the games of a file, which is ``data`` from ``i`` on, to those there; the new counts, or -1 for no room."""
    tags, bodies, results, text, faults = games.tags, games.bodies, games.results, games.text, games.faults
    first_game, first_token = count, token
    phase, depth = _OUTSIDE, 0
    in_comment, at_line_start = False, True
    moved, after_move, only_moves, words, enough = False, False, True, 0, False
    tagged, event_seen, numbered, remark_seen, closed = False, False, False, False, False
    black, first_number = 0, 1
    first_name, first_name_end = 0, 0
    while i < data.size:
        c = data[i]
        kind = KIND[c]
        if in_comment and not (at_line_start and _is_quoted_event(data, i)):
            if c == ord("[") and depth == 0 and token > first_token and i + 1 < data.size and data[i + 1] == ord("%"):
                read_note(data, i, games.notes, token - 1)
            in_comment = c != ord("}")
            at_line_start = kind == LINE_END
            i += 1
            continue
        open_comment, in_comment = in_comment, False
        if kind in (LINE_END, BLANK):
            at_line_start = at_line_start or kind == LINE_END
            i += 1
            continue
        if is_byte_order_mark(data, i):
            i += 3
            continue
        at_line_start = at_line_start or phase == _OUTSIDE
        if c == ord(";") or (at_line_start and c == ord("%")):
            remark_seen = True
            i = line_end(data, i)
            continue
        if c == ord("{"):
            in_comment, remark_seen, at_line_start = True, True, False
            if engine_comments and depth == 0 and token > first_token:
                by_white = (token - first_token + black) % 2 == 1
                read_engine_comment(data, i, 1 if by_white else -1, games.notes, token - 1)
            i += 1
            continue

        begins, is_tag, result, fault = phase == _OUTSIDE, False, NO_RESULT, 0
        number, value, value_end, end, name_end = -1, -1, -1, i + 1, 0
        if at_line_start and c == ord("["):
            name_end, tag_end, whole = tag_name_end(data, i), line_end(data, i), False
            if name_end:
                number = _tag_number(data, i + 1, name_end, games.names)
                value, value_end, tag_end, whole = tag_value(data, name_end)
            is_tag = value >= 0 or number == _EVENT or phase != _IN_MOVES
            if is_tag:
                end = tag_end
                finished = phase == _OVER and enough and (numbered or only_moves)
                begins = begins or finished or not tagged or same(data, i + 1, name_end, first_name, first_name_end)
                if number == _EVENT:
                    begins = begins or event_seen or numbered or closed or open_comment
                if not whole:
                    fault = _PART_OF_TAG
                elif not begins and (phase != _IN_TAGS or (number == _EVENT and remark_seen)):
                    fault = _STRAY_TAG
                elif not begins and number >= 0 and tags[count - 1, number, 0] >= 0:
                    before = tags[count - 1, number]
                    fault = 0 if same(data, value, value_end, before[0], before[1]) else _TWO_VALUES
        # A glyph ends before the letters of ``$exd5``, unless these may be a move of this game.
        is_glyph = c == ord("$") and (phase == _OVER or not is_glued(data, i))
        is_token = not (is_tag or is_glyph or c == ord("(") or c == ord(")") or c == ord("}"))
        if is_token:
            end = token_end(data, i + (c == ord("$")))
            result = result_code(data, i, end)
            closed = result != NO_RESULT
            if depth > 0:
                result = NO_RESULT
            elif phase == _OVER and result == NO_RESULT and is_word(data, i, end):
                prose = at_line_start and not is_like_a_move(data, i, end)
                begins = ((numbered and enough) or not tagged) and (prose or is_move_one(data, i))
                fault = 0 if begins else _AFTER_RESULT
            elif phase == _IN_MOVES and result == NO_RESULT and at_line_start and moved and is_move_one(data, i):
                begins = not tagged
                fault = 0 if begins else _NUMBERS

        if begins:
            if count == results.size:
                return -1, token, written
            games.starts[count] = bodies[count] = i
            if count > first_game:
                games.ends[count - 1] = i
            games.text_offsets[count] = written
            games.token_offsets[count] = first_token = token
            count += 1
            phase, depth = _IN_MOVES, 0
            moved, after_move, only_moves, words, enough = False, False, True, 0, False
            tagged, event_seen, numbered, remark_seen, closed = False, False, False, False, False
            black, first_number = 0, 1
            first_name, first_name_end = i + 1, name_end
        game = count - 1
        start, i = i, end
        if faults[game] == 0:
            faults[game] = fault
        if is_tag:
            phase, at_line_start, tagged, closed = _IN_TAGS, True, True, False
            event_seen = event_seen or number == _EVENT
            bodies[game] = end
            if number >= 0 and value >= 0:
                tags[game, number, 0], tags[game, number, 1] = value, value_end
                if number == _FEN:
                    black, first_number = (
                        black_begins(data, value, value_end),
                        first_move_number(data, value, value_end),
                    )
            continue
        at_line_start = False
        phase = max(phase, _IN_MOVES)
        if c == ord("("):
            depth += moved  # before the first move there is nothing to vary
        elif c == ord(")"):
            depth -= depth > 0
        elif is_glyph:
            i = nag_end(data, start)
        if not is_token or depth > 0:
            continue
        moved = moved or has_letter(data, start, end)
        like_a_move = result == NO_RESULT and is_like_a_move(data, start, end)
        only_moves, words = only_moves and (result != NO_RESULT or like_a_move), words + like_a_move
        written_number = move_number(data, start, end) if is_digit(c) and phase == _IN_MOVES else 0
        if written_number and result == NO_RESULT:
            numbered = True
            first = written_number - (token - first_token + black) // 2
            if first != 1 and first != first_number and faults[game] == 0:
                faults[game] = _NUMBERS
        by_white = phase == _IN_MOVES and (token - first_token + black) % 2 == 0
        if by_white and faults[game] == 0 and is_of_black(data, start, end):
            faults[game] = _NUMBERS
        if result != NO_RESULT:
            enough = enough or (phase != _OVER and moved and words > 1)
            phase = _OVER
            results[game] = result if results[game] in (NO_RESULT, result) else CONFLICT
            continue
        if phase == _OVER:
            continue  # text after a marker that does not begin a game is not a move
        k, stop = move_bounds(data, start, end)
        if k == stop:
            after_move = after_move and not is_digit(c)
            continue
        # After a number comes a move: in "2. N f3" the letter is a knight.
        if after_move and k == start and is_remark(data, k, stop):
            continue
        after_move = True
        clear(games.notes, token)
        token += 1
        while k < stop:
            text[written] = data[k]
            written += 1
            k += 1
        text[written] = ord(" ")
        written += 1
    return count, token, written
