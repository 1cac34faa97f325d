"""Go: SGF to boards, positions and players."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from outofcore.domains.domain import Domain
from outofcore.domains.go.params import SUFFIXES, GoSection
from outofcore.domains.versions import VERSIONS
from outofcore.store.reader import Store


class Go(Domain):
    """Games of Go in SGF."""

    name = "go"
    row = "position"
    sequence = "game"
    suffixes = SUFFIXES
    section = GoSection
    rejecting: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "filters.sizes": ("other_size",),
        "filters.min_moves": ("too_short",),
        "filters.handicap": ("handicap",),
        "filters.results": ("result",),
        "filters.min_rank": ("rank",),
        "filters.unknown_rank": ("unknown_rank",),
        "filters.illegal": ("occupied", "suicide", "ko", "superko", "late_setup"),
    }
    shortest = ((".sgf", 4, 3), (".sgfs", 4, 3))
    packages = ("sgfmill",)
    versions = VERSIONS["go"]

    def check_trainable(self, section: GoSection, store: Store) -> None:
        """Also for its players, where the task tells them apart."""
        super().check_trainable(section, store)
        if section.train.task == "style":
            from outofcore.domains.go.players import check_players

            check_players(store, section.train)


DOMAIN = Go()
