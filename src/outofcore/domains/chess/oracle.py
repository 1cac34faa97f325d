"""The oracle: python-chess reads what the engine cannot, and replays a sample of all games to check it."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from decimal import ROUND_DOWN, Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

import chess
import chess.pgn
import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.schema import (
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
    empty_rows,
)

ILLEGAL_MOVE, UNREADABLE_MOVE, NULL_MOVE = "illegal_move", "unreadable_move", "null_move"
INVALID_POSITION = "invalid_position"
"""Why a game is not legal chess throughout."""

NULL_MOVES = ("--", "Z0", "0000", "@@@@")
_NOTED = {"clock", "evaluation", "mate", "position_evaluation", "time_spent"}
_RESULTS = {"1-0": 1, "1/2-1/2": 0, "0-1": -1}


class Refusal(Exception):  # noqa: N818 - an answer about one game, caught by the caller
    """A game that is not legal chess throughout; ``reason`` is one of the four above."""

    def __init__(self, reason: str, *detail: object) -> None:
        super().__init__(": ".join(map(str, detail)))
        self.reason = reason


class Replay:
    """Positions of a game before each of its moves, as rows."""

    def __init__(self) -> None:
        self._boards: list[tuple[int, ...]] = []
        self._states: list[tuple[int, int, int, int]] = []
        self._moves: list[int] = []

    def __len__(self) -> int:
        return len(self._moves)

    def add(self, board: chess.Board, move: chess.Move) -> None:
        """Append a position and the move about to be played in it."""
        pieces = (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
        white, black = board.occupied_co[chess.WHITE], board.occupied_co[chess.BLACK]
        self._boards.append((*[piece & white for piece in pieces], *[piece & black for piece in pieces]))
        rights = board.clean_castling_rights()
        self._states.append(
            (
                WHITE_TO_MOVE if board.turn == chess.WHITE else BLACK_TO_MOVE,
                rights and _castling(rights, board.kings, board.rooks, white & (board.kings | board.rooks)),
                NO_EN_PASSANT if board.ep_square is None else chess.square_file(board.ep_square),
                min(board.halfmove_clock, LARGEST_HALFMOVE_CLOCK),
            )
        )
        promotion = move.promotion - 1 if move.promotion else 0
        self._moves.append(move.from_square | move.to_square << 6 | promotion << 12)

    def write(self, rows: dict[str, npt.NDArray[Any]], first: int) -> None:
        """Write ``squares``, ``state`` and ``move`` from row ``first`` on."""
        span = slice(first, first + len(self))
        ranks = np.array(self._boards, np.uint64).reshape(-1, 12, 1).view(np.uint8)
        ranks = np.unpackbits(ranks[..., None], axis=3, bitorder="little")  # (positions, 12, ranks, files)
        pieces = np.tensordot(ranks, np.array(list(CODES.values()), np.uint8), (1, 0))
        rows["squares"][span] = pieces[:, 0::2] | pieces[:, 1::2] << 4
        rows["state"][span] = np.array(self._states, np.uint8).reshape(-1, 4)
        rows["move"][span] = self._moves


def read_moves(tokens: Sequence[str], fen: str, *, chess960: bool, least: int | None = None) -> Replay:
    """Replay a game; raises Refusal at the first token that is not a legal move in SAN (long or short) or UCI.

    With ``least``, the game ends there if at least so many moves come before it.
    """
    try:
        board = chess.Board(fen or chess.STARTING_FEN, chess960=chess960)
    except ValueError as error:
        raise Refusal(INVALID_POSITION, fen, error) from error
    board.castling_rights = board.clean_castling_rights()  # a right whose rook has left is none
    if not board.is_valid():
        raise Refusal(INVALID_POSITION, fen, repr(board.status()))
    replay = Replay()
    for ply, token in enumerate(tokens):
        try:
            move = _read_move(board, token, f"ply {ply + 1}")
        except Refusal:
            if least is None or ply < least:
                raise
            return replay
        replay.add(board, move)
        board.push(move)
    return replay


def _read_move(board: chess.Board, token: str, where: str) -> chess.Move:
    if token in NULL_MOVES:
        raise Refusal(NULL_MOVE, where, token)
    try:
        return board.parse_san(token)
    except chess.InvalidMoveError as error:
        raise Refusal(UNREADABLE_MOVE, where, token) from error
    except ValueError as error:
        raise Refusal(ILLEGAL_MOVE, where, error) from error


class _Reader(chess.pgn.BaseVisitor["_Reader"]):
    """Collects the main line of a game from python-chess's own reader, up to its first marker."""

    def __init__(self) -> None:
        self.replay = Replay()
        self.comments: list[list[str]] = []
        self.errors: list[Exception] = []
        self.marker = ""

    def begin_variation(self) -> chess.pgn.SkipType:
        return chess.pgn.SKIP

    def visit_move(self, board: chess.Board, move: chess.Move) -> None:
        if not move:
            self.handle_error(ValueError("null move"))
        if not self.marker and not self.errors:
            self.replay.add(board, move)
            self.comments.append([])

    def visit_comment(self, comment: str) -> None:
        if self.comments and not self.errors:
            self.comments[-1].append(comment)

    def visit_result(self, result: str) -> None:
        self.marker = self.marker or result

    def handle_error(self, error: Exception) -> None:
        if not self.marker:
            self.errors.append(error)

    def result(self) -> _Reader:
        return self


def audit(where: str, *game: Any, **settings: Any) -> str | None:
    """:func:`difference` prefixed with the place of the game; picklable, to run in another process."""
    found = difference(*game, **settings)
    return f"{where}: {found}" if found else None


def difference(
    tags: str,
    body: str,
    stored: dict[str, npt.NDArray[Any]],
    result: int,
    *,
    engine_comments: bool = False,
    time_control: str = "",
    stopped: bool = False,
) -> str | None:
    """Read a game's text with python-chess and describe the first difference from its stored rows.

    ``tags`` give the start position and variant if unusual, ``body`` is the game after its tags, ``stored`` holds all
    row fields of all its positions, ``result`` for White (1, 0, -1) applies if the text has no marker. ``time_control``
    is the tag ``TimeControl``. A game that was ``stopped`` continues in the text.
    """
    game = chess.pgn.read_game(io.StringIO(tags + _without_empty_lines(body)), Visitor=_Reader)
    if game is None or (game.errors and not stopped):
        return f"python-chess reports {game.errors if game else 'no game'}"
    count = len(stored["move"])
    if len(game.replay) < count or (len(game.replay) > count and not stopped):
        return f"{count} moves, by python-chess {len(game.replay)}"
    expected = empty_rows(len(game.replay))
    game.replay.write(expected, 0)
    expected = {name: column[:count] for name, column in expected.items()}
    notes = [
        _notes(game.comments[row], int(expected["state"][row, 0]), engine_comments=engine_comments)
        for row in range(count)
    ]
    clock, evaluation, mate, spent, searched = (list(column) for column in zip(*notes, strict=True))
    expected |= {"clock": np.array(clock), "evaluation": np.array(evaluation), "mate": np.array(mate)}
    expected["position_evaluation"] = _before(evaluation, mate, searched)
    if "time_spent" in stored:
        expected["time_spent"] = _time_spent(clock, spent, _gained(time_control))
    if stopped:  # comments on a move that python-chess skips are, to it, on the last one
        for name in _NOTED & expected.keys():
            expected[name][-1] = stored[name][-1]
    expected["ply"] = np.arange(count)
    expected["result"] = np.full(count, _RESULTS.get(game.marker, result))
    for name, wanted in expected.items():
        same = (stored[name] == wanted).reshape(count, -1).all(axis=1)
        if not same.all():
            row = int(np.argmin(same))
            return f"{name} at ply {row}: {stored[name][row].tolist()}, by python-chess {wanted[row].tolist()}"
    return None


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


def _without_empty_lines(body: str) -> str:
    """The text without empty lines, at which python-chess would end the game."""
    # Byte-order marks are blanks, except in a comment, where another character that is no blank replaces them.
    body = re.sub(r";[^\r\n]*|\{[^}]*", lambda match: match[0].replace("\ufeff", "\u200b"), body)
    lines = (line.strip(" \t\v\f\0\x1a\ufeff") for line in re.split(r"\r\n|\r|\n", body))
    return "\n".join(line for line in lines if line)


# As python-chess has them, but for digits and white space other than ASCII's.
_CLOCK, _SPENT, _EVALUATION = (
    re.compile(expression.pattern, expression.flags & ~re.UNICODE | re.ASCII)
    for expression in (chess.pgn.CLOCK_REGEX, chess.pgn.EMT_REGEX, chess.pgn.EVAL_REGEX)
)
_SCORE = r"(?P<sign>[+-]?)(?:M(?P<plies>\d+)|(?P<cp>\d+(?:\.\d*)?))"
_CUTECHESS = re.compile(rf"[\s\0\x1a]*{_SCORE}/\d+,?[\s\0\x1a]+(?P<seconds>\d+(?:\.\d*)?)s", re.ASCII)
_TCEC = re.compile(rf"(?:^|,)[\s\0\x1a]*(?:mt=(?P<spent>\d+)|tl=(?P<left>\d+)|wv={_SCORE})", re.ASCII)

_TRUNCATING = Context(rounding=ROUND_DOWN, traps=[])  # a million digits overflow
_NONE = (NO_CLOCK, NO_EVALUATION, NO_MATE, NO_CLOCK)


def _notes(comments: Sequence[str], mover: int, *, engine_comments: bool) -> tuple[int, int, int, int, bool]:
    """Clock, evaluation, mate and time spent of the comments on a move; whether its search gave the evaluation."""
    if not engine_comments:
        return (*(_in_brackets(" ".join(comments)) if comments else _NONE), False)
    clock, evaluation, mate, spent = _NONE
    searched = False
    for comment in comments:
        noted = _in_brackets(comment) if "[" in comment else _of_engine(comment, mover)
        clock = noted[0] if clock == NO_CLOCK else clock
        if (evaluation, mate) == _NONE[1:3] != noted[1:3]:
            evaluation, mate, searched = *noted[1:3], "[" not in comment
        spent = noted[3] if spent == NO_CLOCK else spent
    return clock, evaluation, mate, spent, searched


def _before(evaluation: list[int], mate: list[int], searched: list[bool]) -> npt.NDArray[np.int64]:
    """Evaluation of the position before each move, mates as the largest."""
    before = []
    for row in range(len(evaluation)):
        source = row if searched[row] else row - 1
        if source < 0 or searched[source] != (source == row):
            before.append(NO_EVALUATION)
        elif mate[source]:
            before.append(LARGEST_EVALUATION if mate[source] > 0 else -LARGEST_EVALUATION)
        else:
            before.append(evaluation[source])
    return np.array(before)


def _in_brackets(comment: str) -> tuple[int, int, int, int]:
    """Notes by python-chess's expressions."""
    evaluation, mate = NO_EVALUATION, NO_MATE
    if match := _EVALUATION.search(comment):
        if match["mate"]:
            mate = int(max(Decimal(-LARGEST_MATE), min(Decimal(match["mate"]), Decimal(LARGEST_MATE))))
        else:
            centipawns = int(Decimal(match["cp"]) * 100)
            evaluation = max(-LARGEST_EVALUATION, min(centipawns, LARGEST_EVALUATION))
    return _time(_CLOCK.search(comment)), evaluation, mate, _time(_SPENT.search(comment))


def _time(match: re.Match[str] | None) -> int:
    if match is None:
        return NO_CLOCK
    with localcontext(_TRUNCATING):
        seconds = Decimal(match["hours"]) * 3600 + Decimal(match["minutes"]) * 60 + Decimal(match["seconds"])
        return _centiseconds(seconds)


def _centiseconds(seconds: Decimal) -> int:
    return int(min((seconds * 100).to_integral_value(ROUND_DOWN), Decimal(LARGEST_CLOCK)))


def _of_engine(comment: str, mover: int) -> tuple[int, int, int, int]:
    """Notes of an engine match: by cutechess and fastchess for the mover, by TCEC for White."""
    if match := _CUTECHESS.match(comment):
        evaluation, mate = _score(match, 1 if mover == WHITE_TO_MOVE else -1)
        return NO_CLOCK, evaluation, mate, _hundredths(match["seconds"], LARGEST_CLOCK)
    clock, evaluation, mate, spent = _NONE
    for match in _TCEC.finditer(comment):
        if match["spent"] is not None:
            spent = _milliseconds(match["spent"]) if spent == NO_CLOCK else spent
        elif match["left"] is not None:
            clock = _milliseconds(match["left"]) if clock == NO_CLOCK else clock
        elif (evaluation, mate) == _NONE[1:3]:
            evaluation, mate = _score(match, 1)
    return clock, evaluation, mate, spent


def _score(match: re.Match[str], sign: int) -> tuple[int, int]:
    sign = -sign if match["sign"] == "-" else sign
    if match["plies"] is not None:
        return NO_EVALUATION, sign * ((_whole(match["plies"], 2 * LARGEST_MATE) + 1) // 2)
    return sign * _hundredths(match["cp"], LARGEST_EVALUATION), NO_MATE


def _milliseconds(digits: str) -> int:
    """Centiseconds of a number of milliseconds."""
    return _whole(digits, 10 * LARGEST_CLOCK) // 10


def _whole(digits: str, most: int) -> int:
    """A number of any length, at most ``most``; Python converts no more than 4300 digits."""
    return int(min(Decimal(digits), Decimal(most)))


def _hundredths(number: str, most: int) -> int:
    """A number without sign in hundredths, at most ``most``; further digits are cut off."""
    with localcontext(_TRUNCATING):
        return int(min(Decimal(number) * 100, Decimal(most)))


def _gained(control: str) -> int:
    """Centiseconds that every move adds to the clock, if one period, as in ``600+5``, lasts for the whole game."""
    seconds = control.strip(" \t\n\r\f\v").split("+")
    if len(seconds) > 2 or not all(re.fullmatch(r"[0-9]{1,9}([.][0-9]{1,9})?", each) for each in seconds):
        return NO_CLOCK
    return _hundredths(seconds[1], 10**12) if len(seconds) == 2 else 0


def _time_spent(clock: list[int], noted: list[int], increment: int) -> npt.NDArray[np.int64]:
    """Centiseconds that each move took: as noted, else from the mover's clock after the move before."""
    took = list(noted)
    for row in range(2, len(clock)):
        known = increment != NO_CLOCK and NO_CLOCK not in (clock[row], clock[row - 2])
        if took[row] == NO_CLOCK and known and clock[row - 2] + increment >= clock[row]:
            took[row] = clock[row - 2] + increment - clock[row]
    return np.minimum(took, LARGEST_CLOCK)
