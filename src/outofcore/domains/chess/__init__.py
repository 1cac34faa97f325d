"""Chess: PGN to positions, tensors and a model."""

from __future__ import annotations

from outofcore.domains.chess.params import SUFFIXES, ChessSection
from outofcore.domains.domain import Domain


class Chess(Domain):
    """Games of chess in PGN."""

    name = "chess"
    row = "position"
    sequence = "game"
    bytes_version = 5
    suffixes = SUFFIXES
    section = ChessSection
    packages = ("chess", "pyarrow", "rust_pgn_reader_python_binding")


DOMAIN = Chess()
