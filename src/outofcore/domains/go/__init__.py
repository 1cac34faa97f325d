"""Go: SGF to boards, positions and players."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outofcore.domains.domain import Domain, Section
from outofcore.domains.go.converter import Converter
from outofcore.domains.go.diagram import draw
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.schema import schema
from outofcore.domains.go.source import SUFFIXES
from outofcore.raw.files import RawFile
from outofcore.raw.unit import AuditRate, Unit, UnitResult
from outofcore.store.schema import Columns, Schema


class Go(Domain):
    """Games of Go in SGF."""

    name = "go"
    row = "position"
    sequence = "game"
    suffixes: tuple[str, ...] = SUFFIXES
    section: type[Section] = GoSection

    def schemas(self, section: GoSection, files: Sequence[RawFile]) -> dict[str, Schema]:
        """One part."""
        del files
        return {"": schema(section)}

    def converter(self, section: GoSection, rate: AuditRate) -> Callable[[Unit], UnitResult]:
        """Read, play and check the games of a unit."""
        return Converter(section, rate)

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        """The first position as a diagram."""
        del attributes
        return draw(rows)


DOMAIN = Go()
