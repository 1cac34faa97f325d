"""Generate a small PGN input: self-play games of a simple player, and one of each oddity of real files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import chess
import numpy as np
import zstandard

GAMES = 300
MOST_PLIES = 60
ARCHIVED = 100
"""Games in the compressed file."""

_VALUES = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9, chess.KING: 0}
_CONTROLS = ("60+0", "180+2", "600+5", "1800+20", "40/7200:3600", "-")
_TERMINATIONS = ("Normal", "Time forfeit", "Abandoned")


@dataclass(frozen=True)
class Game:
    tags: dict[str, str]
    moves: tuple[str, ...]
    notes: tuple[str, ...]
    result: str

    def text(self) -> str:
        """PGN, one line of moves."""
        tags = "".join(f'[{name} "{value}"]\n' for name, value in self.tags.items())
        words = []
        for ply, (move, note) in enumerate(zip(self.moves, self.notes, strict=True)):
            number = f"{ply // 2 + 1}. " if ply % 2 == 0 else f"{ply // 2 + 1}... " if note else ""
            words.append(f"{number}{move}" + (f" {{ {note} }}" if note else ""))
        return f"{tags}\n{' '.join([*words, self.result])}\n\n"


def write_sample(folder: Path, generator: np.random.Generator) -> None:
    """Write ``games.pgn`` and ``archive/online.pgn.zst`` into an empty folder."""
    games = [_played(number, generator) for number in range(GAMES)]
    plain, archived = games[ARCHIVED:], games[:ARCHIVED]
    texts = [game.text() for game in [*plain, *_oddities(plain[0], plain[1])]]
    (folder / "games.pgn").write_bytes("".join(texts).encode())
    # A game in both files, as if found under each of its players.
    texts = [game.text() for game in [*archived, plain[2]]]
    archive = folder / "archive"
    archive.mkdir()
    compressed = zstandard.ZstdCompressor(level=3, write_checksum=True).compress("".join(texts).encode())
    (archive / "online.pgn.zst").write_bytes(compressed)


def _played(number: int, generator: np.random.Generator) -> Game:
    """A game of a greedy player that otherwise moves to the centre or at random."""
    board = chess.Board()
    moves: list[str] = []
    notes: list[str] = []
    control = _CONTROLS[int(generator.integers(len(_CONTROLS)))]
    clocks = [60_000, 60_000] if number % 3 == 0 else None
    evaluated = number % 10 == 0
    while not board.is_game_over() and len(moves) < MOST_PLIES:
        legal = sorted(board.legal_moves, key=chess.Move.uci)
        worth = np.array([_worth(board, move) for move in legal]) + generator.random(len(legal)) * 2
        move = legal[int(np.argmax(worth))]
        note = []
        if clocks is not None:
            spent = int(generator.integers(10, 900))
            clocks[board.turn] = max(clocks[board.turn] - spent, 0)
            seconds, tenths = divmod(clocks[board.turn] // 10, 10)
            note.append(f"[%clk {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{tenths}]")
        moves.append(board.san(move))
        board.push(move)
        if evaluated:
            note.insert(0, f"[%eval {_evaluation(board)}]")
        notes.append(" ".join(note))
    result = board.result() if board.is_game_over() else _verdict(board)
    elo = generator.integers(1500, 2700, 2)
    tags = {
        "Event": f"{'Rated' if number % 4 else 'Casual'} game",
        "Site": "made up",
        "Date": f"20{number % 25:02}.{number % 12 + 1:02}.{'??' if number % 7 == 0 else '15'}",
        "Round": "-",
        "White": f"Player {int(generator.integers(20))}",
        "Black": f"Player {int(generator.integers(20, 40))}",
        "Result": result,
        "WhiteElo": str(elo[0]),
        "BlackElo": str(elo[1]),
        "TimeControl": control,
        "Termination": _TERMINATIONS[int(generator.integers(len(_TERMINATIONS)))],
    }
    return Game(tags, tuple(moves), tuple(notes), result)


def _worth(board: chess.Board, move: chess.Move) -> float:
    """Immediate gain of a move; capturing a piece guarded by a pawn costs the capturer."""
    gain = 0.5 if move.to_square in _CENTER else 0.0
    if move.promotion:
        gain += _VALUES[move.promotion]
    if taken := board.piece_type_at(move.to_square):
        gain += 2 * _VALUES[taken]
        if board.attackers_mask(not board.turn, move.to_square) & board.pawns:
            gain -= _VALUES[board.piece_type_at(move.from_square) or chess.PAWN]
    return gain


_CENTER = frozenset(
    (chess.C3, chess.D3, chess.E3, chess.F3, chess.D4, chess.E4, chess.D5, chess.E5, chess.C6, chess.F6)
)


def _material(board: chess.Board) -> int:
    return sum(
        value * (len(board.pieces(piece, chess.WHITE)) - len(board.pieces(piece, chess.BLACK)))
        for piece, value in _VALUES.items()
    )


def _evaluation(board: chess.Board) -> str:
    """Material balance in pawns, or the distance to mate if it is on the board or one move away."""
    for move in () if board.is_game_over() else board.legal_moves:
        if board.gives_check(move):
            board.push(move)
            mate = board.is_checkmate()
            board.pop()
            if mate:
                return "#1" if board.turn == chess.WHITE else "#-1"
    return f"{_material(board):.2f}"


def _verdict(board: chess.Board) -> str:
    """Result of an unfinished game: a lead of three pawns wins."""
    balance = _material(board)
    return "1-0" if balance >= 3 else "0-1" if balance <= -3 else "1/2-1/2"


def _oddities(one: Game, other: Game) -> list[Game]:
    """A duplicate, an illegal game, a variant, players without Elo, an unfinished game, a Chess960 game."""
    start = "nqbbrkrn/pppppppp/8/8/8/8/PPPPPPPP/NQBBRKRN w KQkq - 0 1"
    fischer = {**one.tags, "Variant": "fischerandom", "SetUp": "1", "FEN": start, "Result": "1/2-1/2"}
    moves = ("O-O", "O-O", "e4", "e5", "d3", "d6")
    return [
        replace(one, tags={**one.tags, "Event": "The same game, reported twice"}),
        replace(other, moves=(*other.moves[:10], "Ke5", *other.moves[11:])),
        replace(other, tags={**other.tags, "Variant": "Crazyhouse"}),
        replace(
            other, tags={**other.tags, "WhiteElo": "?", "BlackElo": ""}, moves=other.moves[:-2], notes=other.notes[:-2]
        ),
        replace(one, tags={**one.tags, "Result": "*"}, result="*"),
        Game(fischer, moves, ("",) * len(moves), "1/2-1/2"),
    ]
