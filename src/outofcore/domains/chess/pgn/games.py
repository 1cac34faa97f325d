"""Games in PGN: where each begins, and which are written so strictly that the Rust reader takes them as they are.

:func:`_accept` takes a game of complete tags, moves in standard notation, comments, glyphs and closed variations, and
one result, with the end of the file or the beginning of another game behind it. In published files all games but one
of ten thousand are so. Any other text is *odd*: it reaches to the next line that surely begins a game, and python-chess
reads it (:mod:`outofcore.domains.chess.oracle`).

Nothing before the start of a game affects how the text after it is read, so a file may be cut at any start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.codes import NO_CLOCK
from outofcore.domains.chess.pgn import grammar
from outofcore.domains.chess.pgn.notes import Notes, clear, new_notes, read_note
from outofcore.ndarrays import Bytes, Ints
from outofcore.system.compilation import inner_kernel, kernel, variable

LOOKAHEAD = 1024
"""A start this far from the end of the data is certain, whatever follows."""

_EVENT = grammar.TAGS.index("Event")


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
    unread: npt.NDArray[np.int32]  # (n,): notes without a value that can be read
    plies: npt.NDArray[np.int32]  # (n,): moves of each game
    first_clocks: npt.NDArray[np.int32]  # (n, 2): centiseconds left after the first and second move, or NO_CLOCK
    faults: Bytes  # (n,): why it is not surely one game, an index into oracle.FAULTS
    move_offsets: npt.NDArray[np.int32]  # (n + 1,): number of each game's first move; odd games have none
    notes: Notes  # of each move
    comments: npt.NDArray[np.int32]  # (comments, 3): move, and span in ``data``; none unless asked for

    @property
    def tag_names(self) -> tuple[str, ...]:
        """Names of all tags that are read."""
        return (*grammar.TAGS, *(bytes(name).rstrip(b"\0").decode() for name in self.names[len(grammar.TAGS) :]))

    def spans(self, tag: str) -> npt.NDArray[np.int32]:
        """(n, 2) int32: span of a tag's value in ``data``; -1 if missing."""
        return self.tags[:, self.tag_names.index(tag)]

    def tag(self, game: int, name: str) -> str:
        """Text of a tag; empty if missing."""
        begin, end = self.spans(name)[game]
        return unescaped(self.data[begin:end].tobytes())

    def start_fen(self, game: int) -> str:
        """The game's own start position, or an empty text."""
        return self.tag(game, "FEN").replace('"', "").strip()

    def body(self, game: int) -> str:
        """Text of a game after its tags."""
        return decoded(self.data[self.bodies[game, 0] : self.ends[game]].tobytes())

    def comments_of(self, game: int) -> list[list[str]]:
        """The comments on each move of a game, if they were asked for."""
        first, end = self.move_offsets[game : game + 2].tolist()
        texts: list[list[str]] = [[] for _ in range(end - first)]
        span = slice(*np.searchsorted(self.comments[:, 0], (first, end)))
        for move, begin, stop in self.comments[span].tolist():
            texts[move - first].append(decoded(self.data[begin:stop].tobytes()))
        return texts


def decoded(text: bytes) -> str:
    """Text of a PGN file: UTF-8, or Latin-1 as in the standard."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def unescaped(tag: bytes) -> str:
    """Text of the value of a tag."""
    return decoded(tag).replace('\\"', '"').replace("\\\\", "\\").replace("\0", "")


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
    names = grammar.table(dict.fromkeys((*grammar.TAGS, *more_tags)))
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
            unread=np.zeros(most_games, np.int32),
            plies=np.zeros(most_games, np.int32),
            first_clocks=np.full((most_games, 2), NO_CLOCK, np.int32),
            faults=np.zeros(most_games, np.uint8),
            move_offsets=np.zeros(most_games + 1, np.int32),
            notes=new_notes(data.size // 3 + 1),
            comments=np.empty((data.size // 2 + 1 if comments else 0, 3), np.int32),
        )
        listed = np.zeros(1, np.int64)
        count = _scan(games, files, listed)
        most_games *= 8  # games shorter than any real one
    moves = int(games.move_offsets[count])
    per_game = ("starts", "ends", "tags", "bodies", "results", "odd", "unread", "plies", "faults")
    return games._replace(
        notes=games.notes.of(slice(moves)),
        comments=games.comments[: listed[0]],
        move_offsets=games.move_offsets[: count + 1],
        first_clocks=games.first_clocks[:count],
        **{name: getattr(games, name)[:count] for name in per_game},
    )


@kernel
def _scan(games: Games, bounds: Any, listed: Any) -> int:
    """Fill the arrays of ``games`` from its data; returns the number of games, -1 if there is no room for them."""
    count = variable(0)
    for file in range(bounds.size - 1):
        data = games.data[: bounds[file + 1]]
        i = grammar.gap_end(data, bounds[file])
        while i < data.size:
            if count == games.results.size:
                return -1
            games.starts[count] = i
            listed_before = listed[0]
            end = _accept(data, bounds[file], i, games, count, listed)
            games.odd[count] = end < 0
            games.ends[count] = i = grammar.gap_end(data, end) if end >= 0 else -end
            if end < 0:
                games.move_offsets[count + 1] = games.move_offsets[count]
                listed[0] = listed_before
            if i >= data.size:
                games.ends[count] = data.size
            count += 1
    return int(count)


@inner_kernel
def _next_start(data: Bytes, start: int, i: int, name_end: int, event: Any, moved: Any) -> int:
    """The line from that of ``i`` on that surely begins a game after the odd text at ``start``.

    It repeats the first tag, whose name ends at ``name_end``; or it is an Event, if there was one (``event``) or a move
    with a number (``moved``); or it is any tag after such a move and a result, or where there was none (``name_end`` is
    0), and there a move 1 too.
    """
    closed = False
    while i > start and not grammar.LINE_END[data[i - 1]]:
        i -= 1
    while i < data.size:
        if grammar.BLANK[data[i]]:
            i += 1
            continue
        end = grammar.tag_name_end(data, i)
        if (
            i > start
            and end
            and (
                (moved and closed)
                or name_end == 0
                or grammar.same(data, i + 1, end, start + 1, name_end)
                or ((event or moved) and grammar.is_event(data, i, end))
            )
        ):
            return i
        if i > start and name_end == 0 and grammar.is_move_one(data, i):
            return i
        j = i
        while j < data.size and (grammar.is_digit(data[j]) or (j > i and (data[j] == ord(".") or data[j] == ord(" ")))):
            j += 1
        moved = moved or (j > i and grammar.move_end(data, j) > j)
        end = grammar.line_end(data, i)
        closed = grammar.ends_in_result(data, i, end)
        i = end
    return data.size


@inner_kernel
def _read_tags(data: Bytes, start: int, games: Games, game: int) -> tuple[int, int, bool, int]:
    """Spans of the tags at ``start``: where they end, the end of the first one's name, whether there is an Event.

    Last, whether moves follow, 1, or the next game does, 0, or the text is odd, -1.
    """
    tags, i, event = games.tags[game], start, variable(0) > 0
    first_name_end = -int(data[i] == ord("["))
    while i < data.size and data[i] == ord("["):
        name_end = grammar.tag_name_end(data, i)
        begin, end, after = grammar.value(data, name_end) if name_end else (0, 0, -1)
        if after < 0 or not (i == start or grammar.BLANK[data[i - 1]] or data[i - 1] == ord("]")):
            return i, first_name_end, event or i == start, -1
        row = grammar.row_of(data, i + 1, name_end, games.names)
        if first_name_end > 0 and (
            grammar.same(data, i + 1, name_end, start + 1, first_name_end) or (event and row == _EVENT)
        ):
            return i, first_name_end, event, 0
        if row >= 0:
            if tags[row, 0] >= 0 and not grammar.same(data, begin, end, tags[row, 0], tags[row, 1]):
                return i, first_name_end, event, -1
            tags[row, 0], tags[row, 1] = begin, end
            event = event or row == _EVENT
        first_name_end = first_name_end if first_name_end > 0 else name_end
        i = after
        while i < data.size and grammar.BLANK[data[i]]:
            i += 1
    return i, first_name_end, event, 1


@inner_kernel
def _read_comment(data: Bytes, i: int, games: Games, game: int, move: int, listed: Any) -> int:
    """Index after the comment at ``i``, or ``i`` if it never closes; its notes are those of ``move``, if not -1."""
    j = max(grammar.comment_end(data, i), i)
    for k in range(i + 1, j - 1):
        if data[k] == ord("[") and data[k + 1] == ord("%") and move >= 0:
            games.unread[game] += read_note(data, k, games.notes, move)
    if games.comments.size and j > i and move >= 0:
        games.comments[listed[0], 0] = move
        games.comments[listed[0], 1], games.comments[listed[0], 2] = i + 1, j - 1
        listed[0] += 1
    return j


@inner_kernel
def _number_end(data: Bytes, i: int, ply: int, tagged: Any) -> tuple[int, bool]:
    """Index after the number on the main line at ``i``, or ``i`` if it is odd there, and whether there are digits.

    Numbers decide nothing, except that a second move 1 may begin another game, and that text without tags which begins
    with a later move is the rest of one.
    """
    j, number = i, 0
    while j < data.size and grammar.is_digit(data[j]) and j < i + 4:
        number = 10 * number + data[j] - ord("0")
        j += 1
    dots = j
    while j < data.size and data[j] == ord("."):
        j += 1
    glued = j < data.size and j == dots and not grammar.SPACE[data[j]]
    again, late = number == 1 and ply > 1, number > 1 and ply == 0 and not tagged
    null_move = dots > i + 3  # as 0000 is, in other digits too
    return i if glued or again or late or null_move else j, dots > i


@inner_kernel
def _accept(data: Bytes, first: int, start: int, games: Games, game: int, listed: Any) -> int:
    """Index after the result of the game at ``start``, whose columns are written; if odd, minus that of the next game.

    A section of tags without anything before the next one is accepted too, as a game without moves.
    """
    first_move = games.move_offsets[game]
    i, name_end, event, tagged = _read_tags(data, start, games, game)
    games.bodies[game, 0] = games.bodies[game, 1] = i
    games.move_offsets[game + 1] = first_move
    moved = variable(0) > 0
    if tagged <= 0:
        return i if tagged == 0 else -_next_start(data, start, i, name_end, event, moved)
    ply, depth, over = 0, 0, False
    while i < data.size and not over:
        c = data[i]
        j = i
        if grammar.SPACE[c]:
            j = i + 1
        elif c == ord("{"):
            j = _read_comment(data, i, games, game, first_move + ply - 1 if depth == 0 and ply > 0 else -1, listed)
        elif c == ord("("):
            depth += 1
            j = i + (ply > 0)
        elif c == ord(")"):
            j = i + (depth > 0)
            depth -= 1
        elif c == ord("$"):
            j = i + 1
            while j < data.size and grammar.is_digit(data[j]):
                j += 1
            j = j if j > i + 1 else i
        elif c == ord("*") or grammar.is_digit(c) or c == ord("."):
            end = i
            while end < data.size and not grammar.BLANK[data[end]]:
                end += 1
            result = grammar.row_of(data, i, end, grammar.MARKERS) + 1
            if result:
                games.results[game], over = result, True
                j = end if depth == 0 else i
            else:
                j, digits = (i + 1, False) if depth > 0 else _number_end(data, i, ply, name_end > 0)
                moved = moved or digits
        else:
            j = grammar.move_end(data, i)
            if depth == 0 and j > i:
                clear(games.notes, first_move + ply)
                ply += 1
        if j == i:
            return -_next_start(data, start, i, name_end, event, moved and ply > 0)
        i = j
    games.bodies[game, 1] = i
    games.plies[game] = ply
    games.move_offsets[game + 1] = first_move + ply
    for move in range(min(ply, 2)):
        games.first_clocks[game, move] = games.notes.clock[first_move + move]
    following = grammar.gap_end(data, i)
    if not over or (
        following < data.size and not _follows(data, first, start, following, name_end, ply + (moved and ply > 0))
    ):
        return -_next_start(data, start, i - 1, name_end, event, moved and ply > 0)
    return i


@inner_kernel
def _follows(data: Bytes, first: int, start: int, i: int, name_end: int, words: int) -> bool:
    """Whether another game begins at ``i``, after the result of one of so many ``words``."""
    if data[i] != ord("[") or not grammar.begins_line(data, i, first):
        return words > 0 and grammar.is_move_one(data, i)
    end = grammar.tag_name_end(data, i)
    again = end > 0 and grammar.same(data, i + 1, end, start + 1, name_end)
    return again or words > 1 or (name_end == 0 and words > 0) or grammar.is_event(data, i, end)
