"""Games in PGN: where each begins, and which are written so strictly that the Rust reader takes them as they are.

:func:`_accept` takes a game of whole tags, moves in standard notation with numbers that count them, comments, glyphs
and closed variations, and one result, with the end of the file or the beginning of another game behind it. In
published files all games but one of ten thousand are so. Any other text is *odd*: it reaches to the next line that
surely begins a game, :mod:`~outofcore.domains.chess.pgn.words` divides it into words, and python-chess plays it.

Nothing before the start of a game affects how the text after it is read, so a file may be cut at any start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.pgn.notes import Notes, clear, new_notes, read_note
from outofcore.ndarrays import Bytes, Ints
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
"""The tags that are read."""

LOOKAHEAD = 1024
"""A start this far from the end of the data is certain, whatever follows."""

NO_RESULT, WHITE_WINS, DRAW, BLACK_WINS, UNKNOWN_RESULT, CONFLICT = 0, 1, 2, 3, 4, 5
"""Result of a game: none, ``1-0``, ``1/2-1/2``, ``0-1``, ``*``, and several that differ."""

FAULTS = (
    "",
    "a line among the tags is not a whole tag",
    "a tag follows text that is no finished game",
    "a tag has two values",
    "moves follow the result",
    "the numbers do not count the moves",
)
"""Why a piece of text is not surely one game; the first that is met counts."""
NOT_A_TAG, STRAY_TAG, TWO_VALUES, AFTER_RESULT, NUMBERS = 1, 2, 3, 4, 5

LONGEST_TAG_NAME = 255
_EVENT, _FEN = TAGS.index("Event"), TAGS.index("FEN")


def _table(names: Collection[str]) -> Bytes:
    """Texts, a row each, that end in a zero."""
    table = np.array([list(name.ljust(max(map(len, names)) + 1, "\0").encode()) for name in names], np.uint8)
    table.setflags(write=False)  # as constants are to the compiler, which would compile what reads both twice
    return table


def _among(characters: bytes) -> npt.NDArray[np.bool_]:
    """Which bytes are among the characters, (256,)."""
    return np.isin(np.arange(256), list(characters))


_NAMES, _MARKERS = _table(TAGS), _table(("1-0", "1/2-1/2", "0-1", "*"))
_LINE_END, _SPACE, _BLANK = _among(b"\r\n"), _among(b" \t\v\f\r\n"), _among(b" \t\v\f\r\n\0\x1a")
_IN_NAME = _among(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_+#=:-./")
_ENDS_WORD = _among(b" \t\v\f\r\n{($)")


def _moves() -> tuple[Bytes, Bytes, npt.NDArray[np.bool_]]:
    """The grammar of a move: class of each byte, state after each state and class, whether a state is a whole move.

    P is a piece, f a file, r a rank, c a check, s a sign. State 1 is the beginning, state 0 no move.
    """
    letters = {"P": b"KQRBN", "f": b"abcdefgh", "r": b"12345678", "x": b"x", "=": b"=", "c": b"+#", "s": b"!?"}
    classes = np.zeros(256, np.uint8)
    for number, characters in enumerate(letters.values()):
        classes[list(characters)] = number + 1
    pieces = {f"P{start}{x}fr" for start, x in product(("", "f", "r", "fr"), ("", "x"))}
    pawns = {f"{way}{promotion}" for way, promotion in product(("fr", "fxfr", "frfr"), ("", "P", "=P"))}
    forms = {f"{move}{check}{signs}" for move, check, signs in product(pieces | pawns, ("", "c"), ("", "s", "ss"))}
    states = sorted({form[:length] for form in forms for length in range(len(form) + 1)})
    following = np.zeros((len(states) + 1, len(letters) + 1), np.uint8)
    for (row, state), (column, letter) in product(enumerate(states, 1), enumerate(letters, 1)):
        following[row, column] = states.index(state + letter) + 1 if state + letter in states else 0
    return classes, following, np.array([False, *(state in forms for state in states)])


_CLASS, _FOLLOWING, _IS_MOVE = _moves()


class Games(NamedTuple):
    """The n games of a piece of PGN, with m moves in those that are not odd."""

    data: Bytes
    starts: Ints  # (n,): start of each game
    ends: Ints  # (n,): start of the next in the same file, or the end of the file
    names: Bytes  # names of the tags that are read: TAGS, then those that the settings add
    tags: npt.NDArray[np.int32]  # (n, len(names), 2): span of each tag's value in ``data``; -1 if missing
    bodies: Ints  # (n, 2): span of the moves and the result
    results: Bytes  # (n,): result after the moves
    odd: npt.NDArray[np.bool_]  # (n,): not as the Rust reader takes it
    foreign: npt.NDArray[np.bool_]  # (n,): there are bytes beyond ASCII in a comment
    unread: npt.NDArray[np.int32]  # (n,): notes without a value that can be read
    plies: npt.NDArray[np.int32]  # (n,): moves of each game
    faults: Bytes  # (n,): index into FAULTS
    move_offsets: npt.NDArray[np.int32]  # (n + 1,): number of each game's first move; odd games have none
    notes: Notes  # of each move
    comments: npt.NDArray[np.int32]  # (comments, 3): move, and span in ``data``; none unless asked for

    @property
    def tag_names(self) -> tuple[str, ...]:
        """Names of all tags that are read."""
        return (*TAGS, *(bytes(name).rstrip(b"\0").decode() for name in self.names[len(TAGS) :]))

    def spans(self, tag: str) -> npt.NDArray[np.int32]:
        """(n, 2) int32: span of a tag's value in ``data``; -1 if missing."""
        return self.tags[:, self.tag_names.index(tag)]

    def tag(self, game: int, name: str) -> str | None:
        """Value of a tag as UTF-8 or else Latin-1; None if missing."""
        begin, end = self.spans(name)[game]
        return decoded(self.data[begin:end].tobytes()) if begin >= 0 else None

    def start_fen(self, game: int) -> str:
        """The game's own start position, or an empty text."""
        return (self.tag(game, "FEN") or "").replace('"', "").strip()

    def body(self, game: int) -> str:
        """Text of a game after its tags."""
        return decoded(self.data[self.bodies[game, 0] : self.ends[game]].tobytes())


def decoded(text: bytes) -> str:
    """Text of a PGN file: UTF-8, or Latin-1 as in the standard."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def game_starts(data: Bytes) -> Ints:
    """Offsets at which games begin, in PGN from the beginning of a file or of a game, (n,)."""
    return scan(data).starts


def scan(
    data: Bytes,
    bounds: Ints | None = None,
    *,
    more_tags: Iterable[str] = (),
    comments: bool = False,
) -> Games:
    """Find the games of PGN from the beginning of a file or of a game; the last game ends with the data.

    ``bounds`` has the start of each of several files in ``data``, and the end of the last. ``more_tags`` are read next
    to :data:`TAGS`; ``comments`` lists those of the main line.
    """
    files = np.array([0, data.size]) if bounds is None else bounds
    names = _table(dict.fromkeys((*TAGS, *more_tags)))
    most_games = 64 + data.size // 256
    count = -1
    while count < 0:
        games = Games(
            data=data,
            starts=np.empty(most_games, np.int64),
            ends=np.empty(most_games, np.int64),
            names=names,
            tags=np.full((most_games, len(names), 2), -1, np.int32),
            bodies=np.empty((most_games, 2), np.int64),
            results=np.zeros(most_games, np.uint8),
            odd=np.zeros(most_games, np.bool_),
            foreign=np.zeros(most_games, np.bool_),
            unread=np.zeros(most_games, np.int32),
            plies=np.zeros(most_games, np.int32),
            faults=np.zeros(most_games, np.uint8),
            move_offsets=np.zeros(most_games + 1, np.int32),
            notes=new_notes(data.size // 3 + 1),
            comments=np.empty((data.size // 2 + 1 if comments else 0, 3), np.int32),
        )
        listed = np.zeros(1, np.int64)
        count = _scan(games, files, listed)
        most_games *= 8  # games shorter than any real one
    moves = int(games.move_offsets[count])
    columns: list[Any] = [column[:moves] for column in games.notes]
    per_game = ("starts", "ends", "tags", "bodies", "results", "odd", "foreign", "unread", "plies", "faults")
    return games._replace(
        notes=Notes(*columns),
        comments=games.comments[: listed[0]],
        move_offsets=games.move_offsets[: count + 1],
        **{name: getattr(games, name)[:count] for name in per_game},
    )


@kernel
def _scan(games: Games, bounds: Any, listed: Any) -> int:
    """Fill the arrays of ``games`` from its data; returns the number of games, -1 if there is no room for them."""
    count = variable(0)
    for file in range(bounds.size - 1):
        data = games.data[: bounds[file + 1]]
        i = _gap_end(data, bounds[file], bounds[file])
        while i < data.size:
            if count == games.results.size:
                return -1
            games.starts[count] = i
            end = _accept(data, bounds[file], i, games, count, listed)
            games.odd[count] = end < 0
            games.ends[count] = i = _gap_end(data, end, bounds[file]) if end >= 0 else -end
            if end < 0:
                games.move_offsets[count + 1] = games.move_offsets[count]
            if i >= data.size:
                games.ends[count] = data.size
            count += 1
    return int(count)


@inner_kernel
def same(data: Bytes, i: int, j: int, k: int, end: int) -> bool:
    """Whether ``data[i:j]`` equals ``data[k:end]``."""
    if j - i != end - k:
        return False
    for step in range(j - i):  # noqa: SIM110 - compiled code has no generators
        if data[i + step] != data[k + step]:
            return False
    return True


@inner_kernel
def _row_of(data: Bytes, i: int, j: int, names: Bytes) -> int:
    """Row of ``data[i:j]`` in a table of names, or -1."""
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
def _is_digit(c: int) -> bool:
    return ord("0") <= c <= ord("9")


@inner_kernel
def _line_end(data: Bytes, i: int) -> int:
    while i < data.size and not _LINE_END[data[i]]:
        i += 1
    return i


@inner_kernel
def _begins_line(data: Bytes, i: int, first: int) -> bool:
    """Whether only blanks and a byte-order mark are before ``i`` on its line; ``first`` begins the file."""
    while i > first and not _LINE_END[data[i - 1]] and (_BLANK[data[i - 1]] or data[i - 1] in (0xEF, 0xBB, 0xBF)):
        i -= 1
    return bool(i == first or _LINE_END[data[i - 1]])


@inner_kernel
def _gap_end(data: Bytes, i: int, first: int) -> int:
    """Index of the next game or of the end, after blanks, byte-order marks, comments and lines that are escaped."""
    while i < data.size:
        c = data[i]
        if _BLANK[c]:
            i += 1
        elif c == 0xEF and i + 2 < data.size and data[i + 1] == 0xBB and data[i + 2] == 0xBF:
            i += 3
        elif c == ord(";") or (c == ord("%") and _begins_line(data, i, first)):
            i = _line_end(data, i)
        elif c == ord("{"):
            end = _comment_end(data, i)
            if end < 0:
                return i
            i = end
        else:
            return i
    return data.size


@inner_kernel
def _tag_name_end(data: Bytes, i: int) -> int:
    """Index after the name of the tag that opens at ``i`` and has a value in quotes; 0 if there is none."""
    j = i + 1
    while j < data.size and j - i <= LONGEST_TAG_NAME and _IN_NAME[data[j]]:
        j += 1
    k = j
    while k < data.size and _BLANK[data[k]] and not _LINE_END[data[k]]:
        k += 1
    return j if data[i] == ord("[") and j > i + 1 and k < data.size and data[k] == ord('"') else 0


@inner_kernel
def _value(data: Bytes, i: int) -> tuple[int, int, int]:
    """Span of a tag's value after its name, up to the first quote that is not escaped, and the index after the tag.

    The value is on one line, whatever else is in it. The index is -1 if the tag does not close after the value.
    """
    while data[i] != ord('"'):
        i += 1
    begin = i + 1
    i = begin
    while i < data.size and data[i] != ord('"') and not _LINE_END[data[i]]:
        i += 1 + (data[i] == ord("\\"))
    if i >= data.size or data[i] != ord('"'):
        return begin, i, -1
    j = i + 1
    while j < data.size and _BLANK[data[j]] and not _LINE_END[data[j]]:
        j += 1
    return begin, i, j + 1 if j < data.size and data[j] == ord("]") else -1


@inner_kernel
def _comment_end(data: Bytes, i: int) -> int:
    """Index after the comment that opens at ``i``; -1 if it never closes, or not before a line with the tag Event."""
    i += 1
    while i < data.size and data[i] != ord("}"):
        if data[i] == ord("[") and _LINE_END[data[i - 1]] and _is_event(data, i, _tag_name_end(data, i)):
            return -1
        i += 1
    return i + 1 if i < data.size else -1


@inner_kernel
def _is_event(data: Bytes, i: int, name_end: int) -> bool:
    return name_end > 0 and _row_of(data, i + 1, name_end, _NAMES) == _EVENT


@inner_kernel
def _first_move(data: Bytes, i: int, j: int) -> tuple[int, int]:
    """Whether Black moves first, 1 or 0, and the number of that move, by the position in FEN that is ``data[i:j]``."""
    black, number, field = 0, 0, 0
    while i < j and field < 6:
        while i < j and _BLANK[data[i]]:
            i += 1
        field += 1
        if field == 2:
            black = int(i < j and data[i] == ord("b"))
        while i < j and not _BLANK[data[i]]:
            if field == 6 and _is_digit(data[i]) and number < 10_000:
                number = 10 * number + data[i] - ord("0")
            i += 1
    return black, max(number, 1)


@inner_kernel
def _move_end(data: Bytes, i: int) -> int:
    """Index after the move at ``i``; ``i`` if there is none in standard notation."""
    if i + 2 < data.size and data[i] == ord("O") and data[i + 1] == ord("-") and data[i + 2] == ord("O"):
        j = i + (5 if i + 4 < data.size and data[i + 3] == ord("-") and data[i + 4] == ord("O") else 3)
        while j < data.size and _CLASS[data[j]] > 5 and j < i + 8:
            j += 1
        return j if j == data.size or _ENDS_WORD[data[j]] else i
    state, j = 1, i
    while j < data.size and state > 0 and not _ENDS_WORD[data[j]]:
        state = _FOLLOWING[state, _CLASS[data[j]]]
        j += 1
    return j if _IS_MOVE[state] else i


@inner_kernel
def _is_move_one(data: Bytes, i: int) -> bool:
    """Whether ``1.``, not ``1...``, is at ``i``."""
    j = i + 2 if i + 2 < data.size and data[i] == ord("1") and data[i + 1] == ord(".") else data.size
    while j < data.size and _BLANK[data[j]] and not _LINE_END[data[j]]:
        j += 1
    return j < data.size and data[j] != ord(".")


@inner_kernel
def _ends_in_result(data: Bytes, begin: int, end: int) -> bool:
    """Whether the last word of ``data[begin:end]`` is a result."""
    while end > begin and _BLANK[data[end - 1]]:
        end -= 1
    word = end
    while word > begin and not _BLANK[data[word - 1]]:
        word -= 1
    return word < end and _row_of(data, word, end, _MARKERS) >= 0


@inner_kernel
def _next_start(data: Bytes, start: int, i: int, name_end: int, event: Any, moved: Any) -> int:
    """The line from that of ``i`` on that surely begins a game after the odd text at ``start``.

    It repeats the first tag, whose name ends at ``name_end``; or it is an Event, if there was one (``event``) or a move
    with a number (``moved``); or it is any tag after such a move and a result, or where there was none (``name_end`` is
    0), and there a move 1 too.
    """
    closed = False
    while i > start and not _LINE_END[data[i - 1]]:
        i -= 1
    while i < data.size:
        if _BLANK[data[i]]:
            i += 1
            continue
        end = _tag_name_end(data, i)
        if (
            i > start
            and end
            and (
                (moved and closed)
                or name_end == 0
                or same(data, i + 1, end, start + 1, name_end)
                or ((event or moved) and _is_event(data, i, end))
            )
        ):
            return i
        if i > start and name_end == 0 and _is_move_one(data, i):
            return i
        j = i
        while j < data.size and (_is_digit(data[j]) or (j > i and (data[j] == ord(".") or data[j] == ord(" ")))):
            j += 1
        moved = moved or (j > i and _move_end(data, j) > j)
        end = _line_end(data, i)
        closed = _ends_in_result(data, i, end)
        i = end
    return data.size


@inner_kernel
def _accept(data: Bytes, first: int, start: int, games: Games, game: int, listed: Any) -> int:
    """Index after the result of the game at ``start``, whose columns are written; if odd, minus that of the next game.

    A section of tags without anything before the next one is accepted too, as a game without moves.
    """
    tags, notes, i = games.tags[game], games.notes, start
    first_move = games.move_offsets[game]
    first_name_end, black, first_number = -int(data[i] == ord("[")), 0, 1
    event = moved = variable(0) > 0
    while i < data.size and data[i] == ord("["):
        name_end = _tag_name_end(data, i)
        begin, end, after = _value(data, name_end) if name_end else (0, 0, -1)
        if after < 0 or not (i == start or _BLANK[data[i - 1]] or data[i - 1] == ord("]")):
            return -_next_start(data, start, i, first_name_end, event or i == start, moved)
        row = _row_of(data, i + 1, name_end, games.names)
        if first_name_end > 0 and (same(data, i + 1, name_end, start + 1, first_name_end) or (event and row == _EVENT)):
            games.bodies[game, 0] = games.bodies[game, 1] = i
            games.move_offsets[game + 1] = first_move
            return i
        if row >= 0:
            if tags[row, 0] >= 0 and not same(data, begin, end, tags[row, 0], tags[row, 1]):
                return -_next_start(data, start, i, first_name_end, event, moved)
            tags[row, 0], tags[row, 1] = begin, end
            event = event or row == _EVENT
            if row == _FEN:
                black, first_number = _first_move(data, begin, end)
        first_name_end = first_name_end if first_name_end > 0 else name_end
        i = after
        while i < data.size and _BLANK[data[i]]:
            i += 1
    games.bodies[game, 0] = i
    ply, depth, over, waits = 0, 0, False, False
    while i < data.size and not over:
        c = data[i]
        j = i
        if _SPACE[c]:
            j = i + 1
        elif c == ord("{"):
            j = max(_comment_end(data, i), i)
            move = first_move + ply - 1
            for k in range(i + 1, j - 1):
                games.foreign[game] |= data[k] >= 0x80
                if data[k] == ord("[") and data[k + 1] == ord("%") and depth == 0 and ply > 0:
                    games.unread[game] += read_note(data, k, notes, move)
            if games.comments.size and j > i and depth == 0 and ply > 0:
                games.comments[listed[0], 0] = move
                games.comments[listed[0], 1], games.comments[listed[0], 2] = i + 1, j - 1
                listed[0] += 1
        elif c == ord("("):
            depth += 1
            j = i + (ply > 0)
        elif c == ord(")"):
            j = i + (depth > 0)
            depth -= 1
        elif c == ord("$"):
            j = i + 1
            while j < data.size and _is_digit(data[j]):
                j += 1
            j = j if j > i + 1 else i
        elif c == ord("*") or _is_digit(c) or c == ord("."):
            end, number = i, 0
            while end < data.size and not _BLANK[data[end]]:
                end += 1
            result = _row_of(data, i, end, _MARKERS) + 1
            if result:
                games.results[game], over = result, True
                j = end if depth == 0 else i
            else:
                while j < data.size and _is_digit(data[j]) and number < 10_000:
                    number = 10 * number + data[j] - ord("0")
                    j += 1
                dots = j
                while j < data.size and data[j] == ord("."):
                    j += 1
                if depth == 0:
                    counted = number - (ply + black) // 2
                    moved = moved or dots > i
                    waits = waits or (j > dots + 1 and (ply + black) % 2 == 0)
                    if (dots > i and counted != 1 and counted != first_number) or (
                        j < data.size and j == dots and not _SPACE[data[j]]
                    ):
                        j = i
        else:
            j = _move_end(data, i)
            if depth == 0 and j > i:
                j = i if waits else j
                clear(notes, first_move + ply)
                ply += 1
        if j == i:
            return -_next_start(data, start, i, first_name_end, event, moved and ply > 0)
        i = j
    games.bodies[game, 1] = i
    games.plies[game] = ply
    games.move_offsets[game + 1] = first_move + ply
    following = _gap_end(data, i, first)
    if not over or (
        following < data.size and not _follows(data, first, start, following, first_name_end, ply + (moved and ply > 0))
    ):
        return -_next_start(data, start, i - 1, first_name_end, event, moved and ply > 0)
    return i


@inner_kernel
def _follows(data: Bytes, first: int, start: int, i: int, name_end: int, words: int) -> bool:
    """Whether another game begins at ``i``, after the result of one of so many ``words``."""
    if data[i] != ord("[") or not _begins_line(data, i, first):
        return words > 0 and _is_move_one(data, i)
    end = _tag_name_end(data, i)
    again = end > 0 and same(data, i + 1, end, start + 1, name_end)
    return again or words > 1 or (name_end == 0 and words > 0) or _is_event(data, i, end)
