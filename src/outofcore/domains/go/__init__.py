"""Go: SGF to boards, positions and players."""

from __future__ import annotations

from outofcore.domains.domain import Domain
from outofcore.domains.go.params import GoSection


class Go(Domain):
    """Games of Go in SGF."""

    name = "go"
    row = "position"
    sequence = "game"
    suffixes = (".sgf",)
    section = GoSection
    packages = ("sgfmill",)
    bytes_version = 3


DOMAIN = Go()
