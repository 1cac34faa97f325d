"""Go: SGF to boards, positions and players."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from outofcore.domains.domain import Section
from outofcore.domains.go.converter import Converter
from outofcore.domains.go.diagram import draw
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.schema import schema
from outofcore.domains.go.source import SUFFIXES, units
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit, UnitResult
from outofcore.store.schema import Columns, Schema

if TYPE_CHECKING:
    from outofcore.domains.reading import Reading
    from outofcore.domains.task import Task
    from outofcore.store.reader import Store


class Go:
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

    def units(self, files: Sequence[RawFile], section: GoSection) -> Iterator[Unit]:
        """Pieces of about 1 MB of whole games."""
        return units(files, section)

    def converter(self, section: GoSection) -> Callable[[Unit], UnitResult]:
        """Read, play and check the games of a unit."""
        return Converter(section)

    def reading(self, store_attributes: Mapping[str, Any], section: GoSection) -> Reading:
        """Planes and moves, for the feature set named in ``tensors``."""
        from outofcore.domains.go.tensors import make_reading

        return make_reading(store_attributes, section)

    def task(self, store: Store, section: GoSection) -> Task:
        """Predict the next move, or identify players."""
        from outofcore.domains.go.model import make_task

        return make_task(store, section)

    def sample(self, folder: Path, generator: np.random.Generator) -> None:
        """Games of eight simulated players with distinct habits."""
        from outofcore.domains.go.sample import write_sample

        write_sample(folder, generator)

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        """The first position as a diagram."""
        del attributes
        return draw(rows)


DOMAIN = Go()
