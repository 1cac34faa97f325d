"""Neural recordings: stimulus frames and responses of many sessions, aligned to one clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outofcore.domains.domain import Domain
from outofcore.domains.neural.params import NeuralSection
from outofcore.raw.files import RawFile
from outofcore.raw.unit import AuditRate, Unit, UnitResult
from outofcore.store.schema import Columns, Schema

if TYPE_CHECKING:
    from outofcore.domains.planning import Outlook
    from outofcore.domains.reading import Reading
    from outofcore.table import Table

# Files inside a Zarr folder: those of version 3 and 2, and chunks, whose names end with their place in the grid.
ZARR = ("zarr.json", "zarray", "zgroup", "zattrs", "zmetadata", *"0123456789")


class Neural(Domain):
    """The neural domain; imports are deferred to the calls that need them."""

    name = "neural"
    row = "bin"
    sequence = "trial"
    suffixes = (".h5", ".hdf5", ".mat", ".nwb", ".npz", ".npy", ".txt", ".csv", ".tsv", ".dat", ".zarr", *ZARR)
    section = NeuralSection

    def schemas(self, section: NeuralSection, files: Sequence[RawFile]) -> dict[str, Schema]:
        """One store part per convertible session."""
        from outofcore.domains.neural.source import session_schemas

        return session_schemas(files, section)

    def units(self, files: Sequence[RawFile], section: NeuralSection) -> Iterator[Unit]:
        """Ranges of bins of each session."""
        from outofcore.domains.neural.source import session_units

        return session_units(files, section)

    def converter(self, section: NeuralSection, rate: AuditRate) -> Callable[[Unit], UnitResult]:
        """Bins of a unit, read and aligned."""
        from outofcore.domains.neural.converter import Converter

        return Converter(section, rate)

    def reading(self, store_attributes: Mapping[str, Any], section: NeuralSection) -> Reading:
        """Windows of frames as stored, with the responses of the last bin."""
        from outofcore.domains.neural.tensors import make_reading

        return make_reading(store_attributes, section.tensors)

    def plan(self, section: NeuralSection, outlook: Outlook) -> tuple[Table, ...]:
        """Ways to keep the recordings, and which of them fit this machine."""
        from outofcore.domains.neural.plan import ways_table

        return (ways_table(section, outlook),)

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        """The first bin: its frame and its responses."""
        from outofcore.domains.neural.draw import draw

        del attributes
        return draw(rows)


DOMAIN = Neural()
