"""Zarr groups, version 2 and 3, through zarr-python."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from io import BufferedReader
from os import SEEK_END
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from outofcore.domains.neural.recordings.arrays import (
    RecordedArray,
    SessionError,
    guard_size,
    refusing,
    sliced,
    unwritten,
    written,
)
from outofcore.domains.neural.recordings.recording import Recording, intervals_of
from outofcore.raw.files import natural_order
from outofcore.system.failures import NamedFile


class ZarrRecording(Recording):
    """A Zarr group in a folder."""

    format = "zarr"
    folder_suffix = ".zarr"
    # Metadata of version 3 and 2, and chunks, whose names end with their place in the grid.
    member_suffixes = ("zarr.json", "zarray", "zgroup", "zattrs", "zmetadata", *"0123456789")

    def __init__(self, path: Path) -> None:
        with refusing("not a readable Zarr group"):
            self._path, self._group = path, zarr.open_group(path, mode="r")

    def names(self) -> list[str]:
        """Paths of all arrays."""
        members = self._group.members(max_depth=None)
        return sorted((name for name, member in members if isinstance(member, zarr.Array)), key=natural_order)

    def array(self, name: str, axis: int = 0) -> RecordedArray:
        array: Any = self._group[name.strip("/")]
        if (intervals := intervals_of(self, name)) is not None:
            return intervals
        if not isinstance(array, zarr.Array):
            raise SessionError("wrong_type", f"{name!r} is a group; name one of its arrays")
        chunks = self._chunks(array)
        guard_size(array.name, array.shape, array.nbytes, sum(chunks.values()))
        return written(sliced(array, axis, array.name), unwritten(array.shape, array.chunks, axis, chunks), array.name)

    def members(self, name: str) -> list[str] | None:
        member: Any = self._group[name.strip("/")]
        return None if isinstance(member, zarr.Array) else list(member.array_keys())

    def _chunks(self, array: Any) -> dict[tuple[int, ...], int]:
        """Bytes of each chunk (or shard) that was written, by its place in the grid."""
        folder = self._path / array.path
        paths = (path for path in folder.rglob("*") if path.is_file())
        names = ((path, re.findall(r"\d+", path.relative_to(folder).as_posix())) for path in paths)
        files = {tuple(map(int, place)): path for path, place in names if len(place) == array.ndim}
        if not array.shards:
            return {place: path.stat().st_size for place, path in files.items()}
        return {place: size for shard, path in files.items() for place, size in _in_shard(array, shard, path)}


def _in_shard(array: Any, shard: tuple[int, ...], path: Path) -> Iterator[tuple[tuple[int, ...], int]]:
    """Place and bytes of each chunk of a shard that was written, by the shard's index."""
    grid = [whole // part for whole, part in zip(array.shards, array.chunks, strict=True)]
    entries = math.prod(grid)
    with BufferedReader(NamedFile(path)) as stream:
        at_end = array.metadata.codecs[0].to_dict()["configuration"]["index_location"] == "end"
        if at_end and path.stat().st_size >= 16 * entries + 4:
            stream.seek(-16 * entries - 4, SEEK_END)
        content = stream.read(16 * entries)  # an offset and a size each; a checksum follows
    index = np.frombuffer(content, "<u8").reshape(-1, 2) if len(content) == 16 * entries else np.zeros((entries, 2))
    for number in np.flatnonzero(index[:, 0] != np.iinfo(np.uint64).max).tolist():
        inner = np.unravel_index(number, grid)
        place = tuple(int(start * step + at) for start, step, at in zip(shard, grid, inner, strict=True))
        yield place, int(index[number, 1])
