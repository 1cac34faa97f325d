"""A store that is only measured: tables are cut and encoded like real ones, but nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.ndarrays import Ints
from outofcore.store.array import ArrayInMemory
from outofcore.store.codecs import CRC_BYTES
from outofcore.store.form import as_bytes
from outofcore.store.schema import Columns, Layout, Schema
from outofcore.store.shards import ShardFile, index_bytes
from outofcore.store.table_writer import TableWriter
from outofcore.store.writer import StoreWriter

# Parts differ little in their metadata, so only this many are examined.
MEASURED_PARTS = 8


class CountedShard(ShardFile):
    """Keeps only the lengths of its chunks: there is no file."""

    def _open(self) -> None:
        pass

    def append(self, encoded: bytes) -> None:
        """Count the next chunk."""
        self.lengths.append(len(encoded))

    def close(self) -> None:
        """Do nothing."""

    def finish(self) -> tuple[int, str] | None:
        """Size that the file would have, without a digest; None if there would be none."""
        return (index_bytes(self.chunks) + sum(self.lengths), "") if any(self.lengths) else None


class MeasuredStore(StoreWriter):
    """Takes the data of a store and reports its size; arguments as for :class:`outofcore.store.writer.StoreWriter`.

    Its sequences can be read like those of a store.
    """

    def __init__(
        self, schemas: Mapping[str, Schema], layout: Layout, splits: tuple[str, ...], encoders: Executor
    ) -> None:
        super().__init__(Path(), schemas, layout, splits, encoders, shard=CountedShard)
        self._held: defaultdict[tuple[str, str], list[Columns]] = defaultdict(list)

    def append_sequences(self, part: str, split: str, sequences: Columns) -> None:
        super().append_sequences(part, split, sequences)
        self._held[part, split].append(sequences)

    def sequences(self, split: str, part: str = "") -> dict[str, ArrayInMemory]:
        """The sequences of a split by column; none without sequences."""
        held = self._held[part, split]
        columns = {name: np.concatenate([each[name] for each in held]) for name in (held[0] if held else ())}
        return {name: ArrayInMemory(Path(), f"{split}/sequences/{name}", each) for name, each in columns.items()}

    def extents(self, split: str, part: str = "") -> tuple[Ints, Ints]:
        """First row and number of rows of each sequence."""
        columns = self.sequences(split, part)
        return columns["start"].read(), columns["length"].read()

    def size(self, attributes: Mapping[str, Any], sources: Columns, scale: float) -> int:
        """Bytes that the seal would list, for ``scale`` rows per appended row in every table but ``sources``."""
        tables = self.tables()
        listed = self.sources_table(sources)
        for table in [*tables, listed]:
            table.close()
        seen = {part for (part, _), table in self._rows.items() if table.rows}
        parts = len(self.parts) / max(1, len(seen))  # each has files of its own, however small
        shards = sum(_scaled(table, scale, parts) for table in tables) + _scaled(listed, 1.0, 1.0)
        return int(shards + self._metadata([*tables, listed], attributes))

    def _metadata(self, tables: list[TableWriter], attributes: Mapping[str, Any]) -> float:
        """Bytes of ``zarr.json`` of all groups and arrays."""
        groups = sum(map(len, self.documents((), attributes).values()))
        measured = tables[:: max(1, len(self.parts) // MEASURED_PARTS)]
        arrays = sum(len(as_bytes(each)) for table in measured for each in table.documents().values())
        return groups + arrays * len(tables) / len(measured)


def _scaled(table: TableWriter, scale: float, parts: float) -> float:
    """Bytes of the shards of these tables, and of the checksums of their chunks, with ``scale`` times the rows."""
    index = index_bytes(table.layout.shard_rows // table.layout.chunk_rows)
    rows = int(table.rows * scale)
    shards = -(-rows // table.layout.shard_rows)
    checksums = CRC_BYTES * len(table.fields) * -(-rows // table.layout.chunk_rows)
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for name, (size, _) in table.files.items():
        sizes[name.rpartition("/")[0]].append(size - index)
    return checksums + sum(sum(held) * scale + max(len(held) * parts, shards) * index for held in sizes.values())
