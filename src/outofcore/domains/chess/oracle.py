"""The oracle: python-chess reads what the engine cannot, and replays a sample of all games to check it.

What it reads without an error is a game. Only text that may be parts of several games is refused before:
:data:`FAULTS`.
"""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, Context, Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import chess
import chess.pgn
import numpy as np
import numpy.typing as npt

from outofcore.domains.chess import codes
from outofcore.domains.chess.engine import start_tags
from outofcore.domains.chess.moves import move_code
from outofcore.domains.chess.pgn.classes import result_of, spelled
from outofcore.domains.chess.pgn.facts import variant_of
from outofcore.domains.chess.pgn.games import Games, scan
from outofcore.domains.chess.pgn.grammar import LONGEST_TAG_NAME
from outofcore.domains.chess.pgn.notes import Notes, add_engine_notes, new_notes
from outofcore.domains.chess.schema import position_columns
from outofcore.ndarrays import Bytes, Ints

if TYPE_CHECKING:
    from outofcore.domains.chess.convert import ReplayedGames
    from outofcore.domains.chess.params import SourceSection

_ASIDE = re.compile(r"(;[^\r\n]*|\{[^}]*)")
_SQUARE = "[a-h]?[1-8]?[-x]?[a-h][1-8]"
_OTHER_MOVE = re.compile(
    rf"(?:[^\W\d_a-hxKQRBNP]|(?<![\w=-])[^\W\d_a-h]\s+){_SQUARE}|(?<![\w-])(?!O-O|0-0)[oO0]-[oO0](?:-[oO0])?"
)

INVALID_POSITION = "invalid_position"

FAULTS = (
    "",
    "a line of FEN, SetUp or Variant is no complete tag",
    "a tag has two values",
    "a tag or a second move 1 is among the moves",
    "the beginning of the moves is missing",
    "moves follow the result",
)
"""Why a piece of text is not surely one game; the first counts."""
_NOT_A_TAG, _TWO_VALUES, _SECOND_GAME, _REST_OF_GAME, _AFTER_RESULT = range(1, 6)


_BLANK = r"[ \t\v\f\0\x1a]"
_OPENED_TAG = rf'\[([A-Za-z0-9_+#=:./-]{{1,{LONGEST_TAG_NAME}}}){_BLANK}*"'
_BEFORE_TAG = re.compile(rb"(?:[\s\0\x1a]|\xef\xbb\xbf|[%;][^\r\n]*|\{[^}]*\})*")
_TAG = re.compile(rf'{_OPENED_TAG}([^\r\n]*)"{_BLANK}*\]{_BLANK}*(?=[\r\n]|\Z)'.encode())
_INNER_TAG = re.compile(_OPENED_TAG.encode())
_LINE = re.compile(rb"\[(?:(FEN|SetUp|Variant)\b)?[^\r\n]*")
_COMMENTS = re.compile(r"\{[^}]*\}?|;[^\r\n]*|^%[^\r\n]*", re.MULTILINE)
_SECOND = re.compile(rf"^[ \t]*{_OPENED_TAG}|(?<=\S)[ \t]*(?:\r\n?|\n)\s*[\r\n]1\.(?![\s.]*\.)", re.MULTILINE)
_LATER = re.compile(r"\s*(?!1\D)\d+\s*\.")


class Refusal(NamedTuple):
    """Why a game is not legal chess throughout."""

    reason: str  # illegal_move, unreadable_move, null_move or invalid_position
    detail: str


class Replay:
    """Positions of a game before each of its moves, as rows."""

    def __init__(self) -> None:
        self._boards = array("Q")
        self._states = array("B")
        self._moves = array("H")

    def __len__(self) -> int:
        return len(self._moves)

    def add(self, board: chess.Board, move: chess.Move) -> None:
        """Append a position and the move about to be played in it."""
        black, white = board.occupied_co  # indexed by chess.BLACK and chess.WHITE
        kings, rooks = board.kings, board.rooks
        self._boards.extend((board.pawns, board.knights, board.bishops, rooks, board.queens, kings, white, black))
        rights, square = board.clean_castling_rights(), board.ep_square
        self._states.extend(
            (
                codes.WHITE_TO_MOVE if board.turn == chess.WHITE else codes.BLACK_TO_MOVE,
                rights and _castling(rights, kings, rooks, white & (kings | rooks)),
                codes.NO_EN_PASSANT if square is None else chess.square_file(square),
                min(board.halfmove_clock, codes.LARGEST_HALFMOVE_CLOCK),
            )
        )
        self._moves.append(move_code(move.from_square, move.to_square, (move.promotion or 1) - 1))

    def rows(self) -> dict[str, npt.NDArray[Any]]:
        """``squares``, ``state`` and ``move``."""
        boards = np.array(self._boards, np.uint64).reshape(-1, 8)
        own = (boards[:, 6:, None] & boards[:, None, :6]).reshape(-1, 12, 1).view(np.uint8)  # White's, then Black's
        ranks = np.unpackbits(own[..., None], axis=3, bitorder="little")  # (positions, 12, ranks, files)
        pieces = np.einsum("pkrf,k->prf", ranks, np.array(list(codes.CODES.values()), np.uint8))
        return {
            "squares": pieces[:, 0::2] | pieces[:, 1::2] << 4,
            "state": np.array(self._states, np.uint8).reshape(-1, 4),
            "move": np.array(self._moves, np.uint16),
        }


class Reading(chess.pgn.BaseVisitor["Reading"]):
    """The main line of a game as python-chess reads it, up to the first result."""

    def __init__(self) -> None:
        self.replay = Replay()  # up to the first word that is no legal move
        self.comments: list[list[str]] = []  # behind each word that python-chess takes for a move, legal or not
        self.results: list[int] = []  # of the markers after the moves, as in Games.results
        self.refusal: Refusal | None = None  # by the first of these words that is no legal move
        self.moves_follow = False  # the result
        self._begun = False

    def begin_variation(self) -> chess.pgn.SkipType:
        return chess.pgn.SKIP

    def visit_board(self, board: chess.Board) -> None:
        if not self._begun:
            self._begun = True
            board.castling_rights = board.clean_castling_rights()  # a right whose rook has left is none
            if not board.is_valid():
                self._refuse(INVALID_POSITION, f"{board.fen()}: {board.status().name}")

    def begin_parse_san(self, board: chess.Board, san: str) -> chess.pgn.SkipType:
        """Play a move here: after an error python-chess would not read on to the result."""
        if self.results:
            self.moves_follow = True
            return chess.pgn.SKIP
        self.comments.append([])
        move, where = chess.Move.null(), f"ply {len(self.comments)}"
        try:
            move = board.parse_san(san)
            if not move:
                self._refuse("null_move", f"{where}: {san}")
        except chess.InvalidMoveError:
            self._refuse("unreadable_move", f"{where}: {san}")
        except ValueError as error:
            self._refuse("illegal_move", f"{where}: {error}")
        if not self.refusal:
            self.replay.add(board, move)
        board.push(move)
        return chess.pgn.SKIP

    def visit_comment(self, comment: str) -> None:
        if self.comments and not self.results:
            self.comments[-1].append(comment)

    def visit_result(self, result: str) -> None:
        self.results.append(result_of(result))

    def handle_error(self, error: Exception) -> None:
        self._refuse(INVALID_POSITION, str(error))

    def _refuse(self, reason: str, detail: str) -> None:
        self.refusal = self.refusal or Refusal(reason, detail)

    def result(self) -> Reading:
        return self


def plain(body: str) -> str:
    """The text of a game made plain for python-chess, its comments as they are.

    python-chess skips what it does not know and ends a game at an empty line. So empty lines and blanks around lines
    go; results, dashes and pieces are :func:`spelled` as in the standard; and a move after a letter that is no piece in
    English (``Sf3``), or divided from it (``N f3``), becomes a word that it refuses: it would read a pawn's move.
    """
    parts = _ASIDE.split(body)
    parts[::2] = [_OTHER_MOVE.sub("@a1", spelled(part)) for part in parts[::2]]
    parts[1::2] = [part.replace("\ufeff", "\u200b") for part in parts[1::2]]  # which is no blank either
    lines = (line.strip(" \t\v\f\0\x1a") for line in re.split(r"\r\n|\r|\n", "".join(parts)))
    return "\n".join(line for line in lines if line)


def read(tags: str, body: str) -> Reading:
    """Read a game of ``tags``, which give its start position and variant, if unusual, and the text after its tags."""
    text = plain(body)
    reading = chess.pgn.read_game(io.StringIO(tags + text), Visitor=Reading) or Reading()
    if reading.refusal and reading.refusal.reason == INVALID_POSITION and not reading.comments:
        counted = chess.pgn.read_game(io.StringIO(text), Visitor=Reading) or Reading()
        counted.replay, counted.refusal = Replay(), reading.refusal
        return counted
    return reading


def read_pgn(
    data: Bytes, bounds: Ints | None = None, *, more_tags: Iterable[str] = (), comments: bool = False
) -> tuple[Games, dict[int, Reading]]:
    """:func:`scan`, the columns of the odd games filled in, and what python-chess reads of each of them."""
    games = scan(data, bounds, more_tags=more_tags, comments=comments)
    readings = {}
    for game in np.flatnonzero(games.odd).tolist():
        start = int(games.starts[game])
        spans, end, fault = _tags(data[start : games.ends[game]].tobytes())
        games.bodies[game] = start + end, games.ends[game]
        games.tags[game] = [np.add(spans[name], start) if name in spans else (-1, -1) for name in games.tag_names]
        body = games.body(game)
        reading = readings[game] = read(start_tags(games, variant_of(games, game), game), body)
        games.plies[game] = len(reading.comments)
        games.first_clocks[game] = [bracket_notes(texts)[0] for texts in (*reading.comments, [], [])[:2]]
        results = set(reading.results) or {codes.NO_RESULT}
        games.results[game] = results.pop() if len(results) == 1 else codes.CONFLICT
        moves = _COMMENTS.sub("", body)
        faults = {
            fault: True,
            _SECOND_GAME: _SECOND.search(moves),
            _REST_OF_GAME: not spans and _LATER.match(moves),
            _AFTER_RESULT: reading.moves_follow,
        }
        games.faults[game] = next((number for number, applies in faults.items() if number and applies), 0)
    return games, readings


def _tags(text: bytes) -> tuple[dict[str, tuple[int, int]], int, int]:
    """Span of each tag's value, the end of the tags, and what is wrong with them.

    A line that opens a bracket and is no complete tag is skipped, as python-chess does.
    """
    tags: dict[str, tuple[int, int]] = {}
    fault, end = 0, 0
    while True:
        aside = _BEFORE_TAG.match(text, end)
        begin = aside.end() if aside else end
        line = _LINE.match(text, begin)
        if line is None:
            return tags, end, fault
        tag = _TAG.match(text, begin)
        if tag is None or _INNER_TAG.search(tag[2]):
            fault, end = fault or (_NOT_A_TAG if line[1] else 0), line.end()
            continue
        name = tag[1].decode()
        if name in tags and text[slice(*tags[name])] != tag[2]:
            fault = fault or _TWO_VALUES
        tags[name], end = tag.span(2), tag.end()


def difference(
    tags: str,
    body: str,
    stored: dict[str, npt.NDArray[Any]],
    game: ReplayedGames,
    source: SourceSection,
    *,
    stopped: bool = False,
) -> str | None:
    """Read a game's text with python-chess and describe the first difference from its stored rows.

    ``tags`` give the start position and variant if unusual, ``body`` is the game after its tags, ``stored`` holds all
    row fields of all its positions. Of ``game``, which is this one, nothing counts that ``body`` states. A game that
    was ``stopped`` continues in the text.
    """
    reading = read(tags, body)
    if reading.refusal and not stopped:
        return f"python-chess reports {reading.refusal.detail}"
    count = len(stored["move"])
    if len(reading.replay) < count or (len(reading.replay) > count and not stopped):
        return f"{count} moves, by python-chess {len(reading.replay)}"
    boards = {name: column[:count] for name, column in reading.replay.rows().items()}
    notes = new_notes(count)
    read_notes(notes, reading.comments)
    if source.engine_comments:
        add_engine_notes(notes, reading.comments, boards["state"][:, 0])
    game = game._replace(ply=np.arange(count), boards=boards, notes=notes)
    if reading.results and reading.results[0] <= codes.BLACK_WINS:
        game = game._replace(facts=game.facts._replace(result=np.array([codes.DRAW - reading.results[0]], np.int8)))
    for column in position_columns(source):
        name = column.field.name
        mine, wanted = stored[name], np.asarray(column.values(game))
        different = (mine != wanted).reshape(count, -1).any(axis=1)
        if different.any():
            row = int(np.argmax(different))
            return f"{name} at ply {row}: {mine[row].tolist()}, by python-chess {wanted[row].tolist()}"
    return None


def read_notes(notes: Notes, comments: Iterable[Sequence[str]]) -> int:
    """Fill the notes in brackets of moves with those in the comments on each; returns how many cannot be read."""
    unread = 0
    notes.searched[:] = False
    for move, texts in zip(range(len(notes.clock)), comments, strict=False):
        *noted, unread_of_move = bracket_notes(texts)
        notes.clock[move], notes.evaluation[move], notes.mate[move], notes.spent[move] = noted
        unread += unread_of_move
    return unread


@lru_cache(maxsize=256)  # kings and rooks stay where they are for most moves before castling
def _castling(rooks_with_right: int, kings: int, rooks: int, white: int) -> int:
    """Castling rights as they are stored; ``white`` says which kings and rooks are White's."""
    rights = 0
    for rook in chess.scan_forward(rooks_with_right):
        color = bool(chess.BB_SQUARES[rook] & white)
        own = white if color else ~white
        queenside = rook < chess.msb(kings & own)
        right = 1 << (not color) * 2 + queenside
        outside = [square for square in chess.scan_forward(rooks & own) if square >> 3 == rook >> 3]
        inner = outside[0] < rook if queenside else outside[-1] > rook
        rights |= right | (right << codes.INNER_ROOK_SHIFT if inner else 0)
    return rights


# As python-chess has them, but for digits and white space other than ASCII's.
_CLOCK, _EVALUATION = (
    re.compile(expression.pattern, expression.flags & ~re.UNICODE | re.ASCII)
    for expression in (chess.pgn.CLOCK_REGEX, chess.pgn.EVAL_REGEX)
)
_SPENT = re.compile(r"\[%emt\s(?:(?P<hours>\d+):(?P<minutes>\d+):)?(?P<seconds>\d+(?:\.\d*)?)\]", re.ASCII)
_NAMED = re.compile(r"\[%(?:clk|emt|eval)(?![a-zA-Z])")
_TRUNCATING = Context(rounding=ROUND_DOWN, traps=[])  # a million digits overflow


def bracket_notes(comments: Sequence[str]) -> tuple[int, int, int, int, int]:
    """Clock, evaluation, mate and time of the comments on a move, and how many of these notes cannot be read."""
    comment = " ".join(comments)
    if "[%" not in comment:
        return codes.NO_CLOCK, codes.NO_EVALUATION, codes.NO_MATE, codes.NO_CLOCK, 0
    evaluation, mate = codes.NO_EVALUATION, codes.NO_MATE
    if match := _EVALUATION.search(comment):
        if match["mate"]:
            mate = int(max(Decimal(-codes.LARGEST_MATE), min(Decimal(match["mate"]), Decimal(codes.LARGEST_MATE))))
        else:
            centipawns = int(Decimal(match["cp"]) * 100)
            evaluation = max(-codes.LARGEST_EVALUATION, min(centipawns, codes.LARGEST_EVALUATION))
    readable = sum(len(expression.findall(comment)) for expression in (_CLOCK, _SPENT, _EVALUATION))
    unread = len(_NAMED.findall(comment)) - readable
    return _time(_CLOCK.search(comment)), evaluation, mate, _time(_SPENT.search(comment)), unread


def _time(match: re.Match[str] | None) -> int:
    if match is None:
        return codes.NO_CLOCK
    with localcontext(_TRUNCATING):
        seconds = Decimal(match["hours"] or 0) * 3600 + Decimal(match["minutes"] or 0) * 60 + Decimal(match["seconds"])
        return int(min((seconds * 100).to_integral_value(ROUND_DOWN), Decimal(codes.LARGEST_CLOCK)))
