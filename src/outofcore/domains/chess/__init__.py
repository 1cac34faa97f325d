"""Chess: PGN to positions, tensors and a model."""

from __future__ import annotations

from outofcore.domains.chess.params import SUFFIXES, ChessSection
from outofcore.domains.domain import Domain
from outofcore.domains.versions import VERSIONS


class Chess(Domain):
    """Games of chess in PGN."""

    name = "chess"
    row = "position"
    sequence = "game"
    versions = VERSIONS["chess"]
    suffixes = SUFFIXES
    section = ChessSection
    shortest = ((".pgn", 2, 4),)
    losses = (
        *("illegal_move", "unreadable_move", "null_move", "invalid_position"),
        *("not_pgn", "not_one_game", "unterminated", "result_conflict"),
    )
    packages = ("chess", "pyarrow", "rust_pgn_reader_python_binding")


DOMAIN = Chess()
