"""Chess: PGN to positions, tensors and a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outofcore.domains.chess.params import ChessSection
from outofcore.domains.domain import Domain
from outofcore.raw.files import RawFile
from outofcore.raw.unit import AuditRate, Unit, UnitResult
from outofcore.store.schema import Columns

if TYPE_CHECKING:
    from outofcore.domains.reading import Reading


class Chess(Domain):
    """The chess domain; imports are deferred to the calls that need them."""

    name = "chess"
    row = "position"
    sequence = "game"
    suffixes = (".pgn",)
    section = ChessSection

    def units(self, files: Sequence[RawFile], section: ChessSection) -> Iterator[Unit]:
        """Pieces of about a megabyte, cut at game starts."""
        from outofcore.domains.chess.source import units

        return units(files, section.source.longest_game)

    def converter(self, section: ChessSection, rate: AuditRate) -> Callable[[Unit], UnitResult]:
        """Games of a unit to positions."""
        from outofcore.domains.chess.records import Converter

        return Converter(section, rate)

    def reading(self, store_attributes: Mapping[str, Any], section: ChessSection) -> Reading:
        """Positions to planes, move classes and values."""
        from outofcore.domains.chess.tensors import ChessReading

        del store_attributes
        return ChessReading(section.tensors)

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        """The first position as a board."""
        from outofcore.domains.chess.draw import draw

        del attributes
        return draw(rows)


DOMAIN = Chess()
