"""Zarr groups, version 2 and 3, through zarr-python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zarr

from outofcore.domains.neural.recordings.arrays import Array, SessionError, clean, sliced
from outofcore.domains.neural.recordings.recording import Recording
from outofcore.raw.files import natural_order


class ZarrRecording(Recording):
    """A Zarr group in a folder."""

    def __init__(self, path: Path) -> None:
        try:
            self._group = zarr.open_group(path, mode="r")
        except (OSError, ValueError, KeyError, zarr.errors.BaseZarrError) as error:
            message = f"not a readable Zarr group: {clean(error)}"
            raise SessionError(message, reason="unreadable_file") from error

    def names(self) -> list[str]:
        """Paths of all arrays."""
        members = self._group.members(max_depth=None)
        return sorted((name for name, member in members if isinstance(member, zarr.Array)), key=natural_order)

    def array(self, name: str, axis: int = 0) -> Array:
        found: Any = self._group[name.strip("/")]
        if not isinstance(found, zarr.Array):
            message = f"{name!r} is a group; name one of its arrays"
            raise SessionError(message, reason="wrong_type")
        return sliced(found, axis, found.name)

    def trains(self, name: str) -> list[Array]:
        """The arrays of a group, or one vector."""
        found: Any = self._group[name.strip("/")]
        if isinstance(found, zarr.Array):
            return [self.array(name)]
        return [self.array(f"{name}/{key}") for key in sorted(found.array_keys(), key=natural_order)]
