"""Chess: PGN to positions, tensors and a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

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
    rejecting: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "filters.variants": ("variant",),
        "filters.unfinished": ("no_result",),
        "filters.unterminated": ("unterminated",),
        "filters.illegal_move": ("illegal_move", "unreadable_move", "null_move"),
        "filters.min_plies": ("too_short",),
        "filters.unknown_elo": ("elo_unknown",),
        "filters.min_elo": ("elo_too_low",),
        "filters.max_elo": ("elo_too_high",),
        "filters.rated_only": ("not_rated",),
        "filters.time_classes": ("time_class",),
        "filters.terminations": ("termination",),
        "filters.bots": ("bot",),
        "filters.tags": ("tag",),
        "filters.skip_plies, min_clock or elo_of": ("no_positions",),
    }
    losses = (
        *("illegal_move", "unreadable_move", "null_move", "invalid_position"),
        *("not_pgn", "not_one_game", "unterminated", "result_conflict"),
    )
    packages = ("chess", "pyarrow", "rust_pgn_reader_python_binding")


DOMAIN = Chess()
