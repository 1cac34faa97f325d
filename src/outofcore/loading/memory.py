"""The memory that a loader takes, as a sum of four numbers, checked against a budget before an epoch is read.

Tables of the order, of sequences and of chunks; chunks being decoded; an arena of decoded chunks (:mod:`.residency`);
and batches, of which more are made ahead where there is room.

Memory that torch allocates in a thread and frees stays with that thread: up to 20 times the tensor, as the C library
aligns such blocks and finds no room in the gaps (measured with glibc 2.36). So tensors of batches are in memory that is
used again; what a reading allocates itself, and a function of batches (``map``), counts by thread. Where the budget
does not hold what threads would keep of it, large blocks go back to the system when they are freed, which costs the
time to clear their pages again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from outofcore.domains.reading import Reading
from outofcore.domains.task import Batch
from outofcore.errors import BudgetError
from outofcore.loading.sequences import with_columns
from outofcore.loading.split import Split
from outofcore.order.sampling import PoolLimits
from outofcore.settings.sizes import format_bytes
from outofcore.system.recycling import RETURNED_BYTES, recycled

READY_GROUPS = 2  # in addition to one per thread: one used by the consumer, one ready
GROUP_BYTES = 8 << 20  # takes about a millisecond to make, long compared with handing it over
GROUP_BATCHES = 64
SAMPLE_BYTES = 8 + 8 + 8  # of a batch: first row, random word, and part where there are several
THREAD_BYTES = 102 << 10  # a decoder of zstd, the places of the rows that are copied, and the objects of its threads

PIECE_BYTES = 4 << 20  # decoded; a few milliseconds of work, long compared with handing it out
PIECES = 4  # at least, of chunks that are decoded for a pool, for as many threads

_SMALL_TABLES = 64 << 20

RETAINED = 20  # bytes that a thread keeps for each byte of the tensors that torch allocates in it; measured: 19.9
_RETAINED_BY_NUMPY = 4  # measured: up to 3.3, with eight threads
_INTERMEDIATE = 2  # bytes that a reading allocates on the way, at once, for each byte of the tensors that it allocates
_SMALL_BLOCKS = RETAINED * RETURNED_BYTES  # that a thread keeps where larger ones are returned to the system


def table_bytes(chunks: int, fields: int) -> int:
    """Bytes of the tables of a split's chunks."""
    of_chunk = 8 + 8 + 8 + 1 + 1  # origin, slot, holders; decoded, pinned
    of_field = 8 + 24 + 4  # address; offset, length and checksum in the manifest; the store's checksum
    return chunks * (of_chunk + fields * of_field)


def piece_chunks(count: int, chunk_bytes: int) -> int:
    """Chunks per piece of work, of so many."""
    return max(1, min(PIECE_BYTES // max(chunk_bytes, 1), -(-count // PIECES)))


class BatchBytes(NamedTuple):
    """Batches that are made ahead of the consumer, in groups that are handed over at once."""

    batch: int  # bytes of this rank's share of one: its rows as stored, and its tensors
    kept: int  # bytes that a thread keeps per batch, of what the reading and map= allocate
    held: int  # bytes that these allocate on the way, all that a thread keeps if large blocks are returned
    threads: int
    most: int = GROUP_BATCHES  # batches of a group

    @property
    def group_batches(self) -> int:
        """Batches that are best made at once."""
        return max(1, min(GROUP_BYTES // max(self.batch, 1), self.most))

    def taken(self, groups: int, group_batches: int, *, returns: bool) -> int:
        """Bytes of so many groups of batches and the consumer's, and of the threads that make them.

        Large blocks may be returned to the system when they are freed.
        """
        copies = 2 if group_batches > 1 else 1  # batches of a group, which has memory of its own
        kept = group_batches * self.kept
        of_thread = min(kept, group_batches * self.held + _SMALL_BLOCKS) if returns else kept
        return (groups + 1) * group_batches * copies * self.batch + min(groups, self.threads) * of_thread

    @property
    def least(self) -> int:
        """Bytes of the batch that is made, and the consumer's."""
        return self.taken(1, 1, returns=True)

    @property
    def best(self) -> int:
        """Bytes of as many groups as threads work on, and those that wait for the consumer."""
        groups = self.threads + READY_GROUPS
        return max(self.taken(groups, self.group_batches, returns=True), self.taken(groups, 1, returns=False))

    def within(self, room: int) -> tuple[int, int, bool]:
        """Groups, and batches of a group, that so many bytes hold; one of one always.

        Also whether large blocks are to be returned to the system when they are freed.
        """
        counts, sizes = range(self.threads + READY_GROUPS, 1, -1), range(self.group_batches, 1, -1)
        returns = self.taken(counts.start, 1, returns=False) > room
        groups = next((count for count in counts if self.taken(count, 1, returns=returns) <= room), 1)
        size = next((size for size in sizes if self.taken(groups, size, returns=returns) <= room), 1)
        return groups, size, returns and size * self.held + _SMALL_BLOCKS < size * self.kept


class SampleBytes(NamedTuple):
    """Bytes per sample of a batch, as :class:`BatchBytes` has them per batch."""

    batch: int = 0
    kept: int = 0
    held: int = 0

    def batches(self, samples: int, threads: int, most: int = GROUP_BATCHES) -> BatchBytes:
        """Batches of so many samples on this rank."""
        batch, kept, held = (samples * size for size in self)
        return BatchBytes(batch, kept, held, threads, most)


def loose_bytes(tensors: Iterable[torch.Tensor], arrays: Iterable[Any] = ()) -> tuple[int, int]:
    """Bytes of tensors that are neither in recycled memory nor in these arrays, and what a thread keeps of them."""
    spans = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    loose = [
        tensor
        for tensor in tensors
        if not recycled(tensor.data_ptr()) and not any(start <= tensor.data_ptr() < stop for start, stop in spans)
    ]
    times = [RETAINED if tensor.untyped_storage().resizable() else _RETAINED_BY_NUMPY for tensor in loose]
    sizes = [tensor.nbytes for tensor in loose]
    return sum(sizes), sum(map(mul, times, sizes))


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """What a rank takes to read a split."""

    limits: PoolLimits
    batches: BatchBytes
    chunk: int  # decoded bytes of one chunk of all fields
    chunks: int  # of the split that samples are in
    split_tables: int  # bytes of sequences, columns and chunk indexes
    split_opening: int = 0  # bytes of sequences and columns while they are read
    decoded_at_once: int = 0  # bytes of chunks being decoded
    mappable: bool = False  # all fields are in uncompressed local files

    @property
    def tables(self) -> int:
        """Bytes of the tables of the split and the order, and of the order of a pool."""
        return self.split_tables + self.limits.table_bytes + 5 * 8 * self.limits.samples + 8 * self.limits.weights

    @property
    def opening(self) -> int:
        """Bytes held while tables are read."""
        return self.split_opening + self.limits.table_bytes

    @property
    def decoding(self) -> int:
        """Bytes that threads hold to decode."""
        return self.decoded_at_once + self.batches.threads * THREAD_BYTES

    @property
    def slots(self) -> int:
        """Chunks of two pools, one in use and one being read, or of the whole split if that is less."""
        return self.chunks if self.limits.chunks is None else min(2 * self.limits.chunks, self.chunks)

    @property
    def decoded(self) -> int:
        """Bytes of all chunks that samples are in."""
        return self.chunks * self.chunk

    @property
    def fixed(self) -> int:
        """Bytes of all but the arena, with the fewest batches."""
        return self.tables + self.decoding + self.batches.least

    @property
    def streamed(self) -> int:
        """Least bytes for streaming."""
        return max(self.fixed + self.slots * self.chunk, self.opening)

    @property
    def whole(self) -> int:
        """Least bytes for holding the whole split."""
        return max(self.fixed + self.decoded, self.opening)


def decoding_bytes(threads: int, chunk: int, chunks: int, pool_chunks: int, *, local: bool, held: int = 1) -> int:
    """Bytes of chunks being decoded: one per thread, or all of a piece of work, as a remote store sends it.

    ``held`` are chunks that a thread holds while it decodes one.
    """
    if held != 1:
        return min(threads, pool_chunks) * held * chunk
    if local:  # a thread keeps its buffer from pool to pool
        return min(threads, chunks) * chunk
    return min(threads * piece_chunks(pool_chunks, chunk), pool_chunks) * chunk


def measure(
    split: Split,
    limits: PoolLimits,
    sample: SampleBytes,
    batch_size: int,
    world: int,
    threads: int,
    parts: int,
) -> MemoryEstimate:
    """What one of ``world`` ranks needs to read a split, one of so many parts."""
    rows, mask = split.rows, split.sequences.mask
    tables = split.columns.bytes + (0 if mask is None else mask.nbytes)
    cached = sorted(array.cached_bytes for array in rows.arrays)
    kept = sum(cached) + 2 * sum(cached[-threads:])  # one that is being decoded is there encoded and decoded besides
    chunk, chunks = rows.row_bytes * rows.chunk_rows, rows.chunks if split.used is None else len(split.used)
    pool_chunks = chunks if limits.chunks is None else limits.chunks
    held = max(array.decoding for array in rows.fields.values())
    local = all(isinstance(store.root, Path) for store in split.stores)
    fetching = 0 if local or held != 1 else max(array.fetching for array in rows.arrays)
    window, columns = split.windows.window, split.columns.bytes > 0
    reads_extents = split.selects or columns or limits.by_sequence or (window is not None and window.by_sequence)
    return MemoryEstimate(
        limits=limits,
        batches=sample.batches(-(-batch_size // world), threads, GROUP_BATCHES if parts == 1 else 1),
        chunk=chunk,
        chunks=chunks,
        split_tables=tables + table_bytes(rows.chunks, len(rows.fields)) + kept,
        split_opening=tables + (split.sequences.extents_bytes if reads_extents else 0),
        decoded_at_once=fetching + decoding_bytes(threads, chunk, chunks, pool_chunks, local=local, held=held),
        mappable=all(array.mappable for array in rows.arrays),
    )


def sample_bytes(split: Split) -> SampleBytes:
    """Bytes per sample: by their shapes, or of the first sample, which is read for a user's reading or ``map``."""
    if not split.windows.samples:
        return SampleBytes()
    rows = _blank_rows(split) if split.ready and not split.transform else _first_rows(split)
    tensors, (batch, kept, held) = tensors_of_sample(rows, split.reading)
    tensors = with_columns(tensors, columns := split.columns.blank())
    batch += sum(values.nbytes for values in columns.values())
    batch += split.windows.packs.runs_bytes if split.windows.packs else 0
    if split.transform is None:
        return SampleBytes(batch, kept, held)
    if split.place is not None:
        tensors = {**tensors, "part": torch.tensor([split.place])}
    result, peak = split.transform.check(tensors)
    return SampleBytes(batch + result, kept + RETAINED * peak, held + peak - result)


def tensors_of_sample(rows: Mapping[str, Any], reading: Reading) -> tuple[Batch, SampleBytes]:
    """The tensors of the rows of one sample, and their bytes."""
    tensors = reading(rows, np.zeros(1, np.uint64))
    loose, kept = loose_bytes(tensors.values(), rows.values())
    batch = SAMPLE_BYTES + sum(array.nbytes for array in (*rows.values(), *tensors.values()))
    return tensors, SampleBytes(batch, kept, _INTERMEDIATE * loose)


def _blank_rows(split: Split) -> dict[str, Any]:
    """Rows of one sample, 0."""
    window = (split.windows.length,) if split.windows.length > 1 else ()
    return {
        name: np.zeros((1, *window, *array.shape[1:]), array.dtype) for name, array in split.rows.fields.items()
    } | split.columns.blank_rows()


def _first_rows(split: Split) -> dict[str, Any]:
    length = split.windows.length
    first = int(split.windows.first_rows(np.zeros(1, np.int64))[0])
    stored = 1 if split.windows.packs else length
    store = int(split.rows.store_of(np.array(first + stored - 1)))
    first -= int(split.rows.origins[store])
    window = (length,) if length > 1 else ()
    rows: dict[str, Any] = {}
    for name, array in split.rows.stores[store].items():  # one that reaches back repeats the first row
        values = array.read(max(first, 0), first + stored)
        repeated = np.repeat(values[:1], length - len(values), axis=0)
        rows[name] = np.concatenate((repeated, values)).reshape(1, *window, *array.shape[1:])
    return rows | split.columns.blank_rows()


def prove_tables(budget: int, splits: Sequence[Split]) -> None:
    """Raise BudgetError if tables of the chunks exceed the budget, before they are built; small ones are built."""
    least = sum(table_bytes(split.rows.chunks, len(split.rows.fields)) for split in splits)
    if least > max(budget, _SMALL_TABLES):
        rows, chunks = splits[0].rows, sum(split.rows.chunks for split in splits)
        raise BudgetError(
            f"a memory budget of {format_bytes(budget)} is too small: the tables of {chunks:,} chunks take "
            f"{format_bytes(least)}, in addition to all else; raise memory, or read a copy with larger chunks: these "
            f"have {rows.chunk_rows:,} rows of {rows.row_bytes:,} bytes"
        )


def smaller(planned: Callable[..., object], pool_blocks: int, batch_size: int, least_size: int) -> str:
    """What else would fit a budget that was refused: the largest pool or batch."""

    def accepted(**changes: Any) -> bool:
        try:
            planned(**changes)
        except BudgetError:
            return False
        return True

    def largest(name: str, below: int) -> int:
        """The largest value of an argument that is accepted, 0 if none is: smaller ones take less."""
        if below < 2 or not accepted(**{name: 1}):
            return 0
        return bisect_right(range(1, below), 0, key=lambda value: int(not accepted(**{name: value})))

    ways = [f"pool_blocks={blocks}"] if (blocks := largest("pool_blocks", pool_blocks)) else []
    ways += [f"batch_size={size}"] if (size := largest("batch_size", batch_size)) >= least_size else []
    return f", or {' or '.join(ways)} with this budget" if ways else "; no smaller pool or batch fits this budget"
