"""Neural recordings: stimulus frames and responses of many sessions, aligned to one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outofcore.domains.domain import Domain
from outofcore.domains.neural.params import NeuralSection

if TYPE_CHECKING:
    from outofcore.display.table import DisplayTable
    from outofcore.domains.planning import Outlook

# Files inside a Zarr folder: those of version 3 and 2, and chunks, whose names end with their place in the grid.
ZARR = ("zarr.json", "zarray", "zgroup", "zattrs", "zmetadata", *"0123456789")


class Neural(Domain):
    """Recordings of many sessions."""

    name = "neural"
    row = "bin"
    sequence = "trial"
    divided_by = "source.trial_bins"
    suffixes = (".h5", ".hdf5", ".mat", ".nwb", ".npz", ".npy", ".txt", ".csv", ".tsv", ".dat", ".zarr", *ZARR)
    section = NeuralSection
    bytes_version = 4
    packages = ("h5py", "scipy")
    not_audited = "every format has one library, which the conversion uses: no second reader is independent of it"

    def plan(self, section: NeuralSection, outlook: Outlook) -> tuple[DisplayTable, ...]:
        """Ways to keep the frames, and which of them fit this machine."""
        from outofcore.domains.neural.plan import ways_table

        if section.source.names.stimulus is None:
            return ()
        return (ways_table(section, outlook),)


DOMAIN = Neural()
