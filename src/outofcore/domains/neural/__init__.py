"""Neural recordings: stimulus frames and responses of many sessions, aligned to one clock."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from outofcore.domains.domain import Domain
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.versions import VERSIONS

if TYPE_CHECKING:
    from pathlib import Path

    from outofcore.display.table import DisplayTable
    from outofcore.domains.planning import Outlook


class Neural(Domain):
    """Recordings of many sessions."""

    name = "neural"
    row = "bin"
    sequence = "trial"
    divided_by = "source.trial_bins"
    section = NeuralSection
    versions = VERSIONS["neural"]
    packages = ("h5py", "scipy")
    rejecting: ClassVar[Mapping[str, tuple[str, ...]]] = {"source.names": ("missing_field",)}
    sizes = ("neurons", "behaviors")
    not_audited = "every format has one library, which the conversion uses: no second reader is independent of it"

    @cached_property
    def suffixes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Endings of all formats, which import their libraries."""
        self.require_packages()
        from outofcore.domains.neural.sessions import NAMES

        return NAMES

    def contents(self, path: Path) -> DisplayTable | None:
        """The arrays of a file that is a session, by the names that settings take."""
        self.require_packages()
        from outofcore.domains.neural.sessions import arrays_table

        return arrays_table(path)

    def plan(self, section: NeuralSection, outlook: Outlook) -> tuple[DisplayTable, ...]:
        """Ways to keep the frames, and which of them fit this machine."""
        from outofcore.domains.neural.plan import ways_table

        if section.source.names.stimulus is None:
            return ()
        return (ways_table(section, outlook),)


DOMAIN = Neural()
