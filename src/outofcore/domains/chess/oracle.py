"""The oracle: python-chess reads what the engine cannot, and replays a sample of all games to check it."""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import chess
import chess.pgn
import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.codes import (
    BLACK_TO_MOVE,
    CODES,
    INNER_ROOK_SHIFT,
    LARGEST_CLOCK,
    LARGEST_EVALUATION,
    LARGEST_HALFMOVE_CLOCK,
    LARGEST_MATE,
    NO_CLOCK,
    NO_EN_PASSANT,
    NO_EVALUATION,
    NO_MATE,
    WHITE_TO_MOVE,
)
from outofcore.domains.chess.pgn.grammar import BLACK_WINS, DRAW
from outofcore.domains.chess.pgn.notes import Notes, add_engine_notes, new_notes
from outofcore.domains.chess.pgn.plain import plain, result_of
from outofcore.domains.chess.schema import position_columns

if TYPE_CHECKING:
    from outofcore.domains.chess.convert import ReplayedGames
    from outofcore.domains.chess.params import SourceSection

ILLEGAL_MOVE, UNREADABLE_MOVE, NULL_MOVE = "illegal_move", "unreadable_move", "null_move"
INVALID_POSITION = "invalid_position"
"""Why a game is not legal chess throughout."""


class Refusal(NamedTuple):
    """Why a game is not legal chess throughout."""

    reason: str  # one of the four above
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
                WHITE_TO_MOVE if board.turn == chess.WHITE else BLACK_TO_MOVE,
                rights and _castling(rights, kings, rooks, white & (kings | rooks)),
                NO_EN_PASSANT if square is None else chess.square_file(square),
                min(board.halfmove_clock, LARGEST_HALFMOVE_CLOCK),
            )
        )
        promotion = move.promotion - 1 if move.promotion else 0
        self._moves.append(move.from_square | move.to_square << 6 | promotion << 12)

    def rows(self) -> dict[str, npt.NDArray[Any]]:
        """``squares``, ``state`` and ``move``."""
        boards = np.array(self._boards, np.uint64).reshape(-1, 8)
        own = (boards[:, 6:, None] & boards[:, None, :6]).reshape(-1, 12, 1).view(np.uint8)  # White's, then Black's
        ranks = np.unpackbits(own[..., None], axis=3, bitorder="little")  # (positions, 12, ranks, files)
        pieces = np.einsum("pkrf,k->prf", ranks, np.array(list(CODES.values()), np.uint8))
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
                self._refuse(INVALID_POSITION, f"{board.fen()}: {board.status()!r}")

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
                self._refuse(NULL_MOVE, f"{where}: {san}")
        except chess.InvalidMoveError:
            self._refuse(UNREADABLE_MOVE, f"{where}: {san}")
        except ValueError as error:
            self._refuse(ILLEGAL_MOVE, f"{where}: {error}")
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


def read(tags: str, body: str) -> Reading:
    """Read a game of ``tags``, which give its start position and variant, if unusual, and the text after its tags."""
    text = plain(body)
    reading = chess.pgn.read_game(io.StringIO(tags + text), Visitor=Reading) or Reading()
    if reading.refusal and reading.refusal.reason == INVALID_POSITION and not reading.comments:
        counted = chess.pgn.read_game(io.StringIO(text), Visitor=Reading) or Reading()
        counted.replay, counted.refusal = Replay(), reading.refusal
        return counted
    return reading


def audit(where: str, *game: Any, **settings: Any) -> str | None:
    """:func:`difference` prefixed with the place of the game; picklable, to run in another process."""
    report = difference(*game, **settings)
    return f"{where}: {report}" if report else None


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
    if reading.results and reading.results[0] <= BLACK_WINS:
        game = game._replace(facts=replace(game.facts, result=np.array([DRAW - reading.results[0]])))
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
        rights |= right | (right << INNER_ROOK_SHIFT if inner else 0)
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
        return NO_CLOCK, NO_EVALUATION, NO_MATE, NO_CLOCK, 0
    evaluation, mate = NO_EVALUATION, NO_MATE
    if match := _EVALUATION.search(comment):
        if match["mate"]:
            mate = int(max(Decimal(-LARGEST_MATE), min(Decimal(match["mate"]), Decimal(LARGEST_MATE))))
        else:
            centipawns = int(Decimal(match["cp"]) * 100)
            evaluation = max(-LARGEST_EVALUATION, min(centipawns, LARGEST_EVALUATION))
    readable = sum(len(expression.findall(comment)) for expression in (_CLOCK, _SPENT, _EVALUATION))
    unread = len(_NAMED.findall(comment)) - readable
    return _time(_CLOCK.search(comment)), evaluation, mate, _time(_SPENT.search(comment)), unread


def _time(match: re.Match[str] | None) -> int:
    if match is None:
        return NO_CLOCK
    with localcontext(_TRUNCATING):
        seconds = Decimal(match["hours"] or 0) * 3600 + Decimal(match["minutes"] or 0) * 60 + Decimal(match["seconds"])
        return int(min((seconds * 100).to_integral_value(ROUND_DOWN), Decimal(LARGEST_CLOCK)))
