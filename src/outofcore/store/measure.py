"""A store that is never written: its tables are cut and encoded as those of a real one, and only counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from zarr.storage import MemoryStore

from outofcore.store.schema import Columns, Layout, Schema
from outofcore.store.shards import index_bytes
from outofcore.store.table import TableWriter
from outofcore.store.writer import StoreWriter

# Parts differ little in their metadata; those of so many are looked at.
MEASURED_PARTS = 8


class CountedShard:
    """Stands for a :class:`outofcore.store.shards.ShardFile`; the lengths of its chunks are all that is kept."""

    def __init__(self, path: Path, chunks: int, lengths: list[int] | None = None) -> None:
        self.path = path
        self.chunks = chunks
        self.lengths = list(lengths or [])

    @property
    def full(self) -> bool:
        """Whether no further chunk fits."""
        return len(self.lengths) == self.chunks

    def append(self, encoded: bytes) -> None:
        """Count the next chunk."""
        self.lengths.append(len(encoded))

    def sync(self) -> None:
        """There is nothing to bring to the disk."""

    def close(self) -> None:
        """There is nothing to close."""

    def finish(self) -> tuple[int, str] | None:
        """Size of the file that would stand, without a digest; None where there would be none."""
        return (index_bytes(self.chunks) + sum(self.lengths), "") if any(self.lengths) else None


class MeasuredStore(StoreWriter):
    """Takes what a store would be written from, and says how large it would be.

    Parameters
    ----------
    schemas, layout, splits, encoders
        As for a :class:`outofcore.store.writer.StoreWriter`.
    """

    def __init__(
        self, schemas: Mapping[str, Schema], layout: Layout, splits: tuple[str, ...], encoders: Executor
    ) -> None:
        super().__init__(Path(), schemas, layout, splits, encoders, shard=CountedShard)

    def size(self, attributes: Mapping[str, Any], sources: Columns, scale: float) -> int:
        """Bytes of all files that the seal would list.

        Parameters
        ----------
        attributes, sources
            As for the commit of a store.
        scale
            How many times the rows that were appended the store would hold, in every table but ``sources``.
        """
        tables = [table for table in self.tables() if isinstance(table, TableWriter)]  # none is written elsewhere
        listed = self.sources_table(sources)
        for table in [*tables, listed]:
            table.close()
        shards = sum(_scaled(table, scale) for table in tables) + _scaled(listed, 1.0)
        return int(shards + self._metadata([*tables, listed], attributes))

    def _metadata(self, tables: list[TableWriter], attributes: Mapping[str, Any]) -> float:
        """Bytes of ``zarr.json`` of all groups and arrays."""
        groups, arrays = MemoryStore(), MemoryStore()
        self.write_groups(groups, attributes)
        measured = tables[:: max(1, len(self.parts) // MEASURED_PARTS)]
        for table in measured:
            table.write_metadata(arrays)
        inside = {f"{table.path}/{field.name}/zarr.json" for table in measured for field in table.fields}
        size = sum(len(content) for name, content in _contents(arrays) if name in inside)
        return sum(len(content) for _, content in _contents(groups)) + size * len(tables) / len(measured)


def _contents(store: MemoryStore) -> list[tuple[str, bytes]]:
    return [(name, buffer.to_bytes()) for name, buffer in store._store_dict.items()]  # noqa: SLF001 - it has no other way


def _scaled(table: TableWriter, scale: float) -> float:
    """Bytes of the shards of a table that holds so many times the rows."""
    index = index_bytes(table.layout.shard_rows // table.layout.chunk_rows)
    shards = -(-int(table.rows * scale) // table.layout.shard_rows)
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for name, (size, _) in table.files.items():
        sizes[name.rpartition("/")[0]].append(size - index)
    return sum(sum(held) * scale + max(len(held), shards) * index for held in sizes.values())
