"""The memory that a loader will hold, as a ledger, checked against a budget before a row is read."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from outofcore.errors import BudgetError
from outofcore.loading.batch_memory import SampleBytes, loose_bytes
from outofcore.loading.sequences import with_columns
from outofcore.loading.split import Split, StoredReading
from outofcore.order.sampling import Access, PoolLimits, Sampler
from outofcore.settings.sizes import format_bytes, format_least

Ledger = dict[str, int]
"""Bytes by what they are for."""

LEAST_BATCHES = 2  # one for the consumer, one being made
READY_GROUPS = 2  # in addition to one per thread: one used by the consumer, one ready
GROUP_BYTES = 8 << 20  # takes about a millisecond to make, long compared with handing it over
GROUP_BATCHES = 64
SAMPLE_BYTES = 8 + 8 + 8  # of a batch: first row, random word, and part where there are several
THREAD_BYTES = 102 << 10  # a decoder of zstd, the places of the rows that are copied, and the objects of its threads

PIECE_BYTES = 4 << 20  # decoded; a few milliseconds of work, long compared with handing it out
PIECES = 4  # at least, of chunks that are decoded for a pool, for as many threads

_SMALL_TABLES = 64 << 20


def table_bytes(chunks: int, fields: int) -> int:
    """Bytes of the tables of a split's chunks."""
    of_chunk = 8 + 8 + 8 + 1 + 1  # origin, slot, holders; decoded, pinned
    of_field = 8 + 24 + 4  # address; offset, length and checksum in the manifest; the store's checksum
    return chunks * (of_chunk + fields * of_field)


def piece_chunks(count: int, chunk_bytes: int) -> int:
    """Chunks per piece of work, of so many."""
    return max(1, min(PIECE_BYTES // max(chunk_bytes, 1), -(-count // PIECES)))


class InFlight(NamedTuple):
    """Batches that are made ahead of the consumer."""

    groups: int  # of batches in flight, in addition to the consumer's
    group_batches: int  # per group
    makers: int  # threads that make batches
    returns: bool = False  # whether large blocks are returned to the system when they are freed


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Least memory that reading a split takes, and where its rows can be."""

    chunk: int  # decoded bytes of one chunk of all fields
    chunks: int  # of the split that samples are in
    pool_blocks: int  # most full blocks per pool
    pool_chunks: int  # most chunks per pool; two pools are held, one consumed and one being read
    pool_samples: int  # most samples per pool; 8 bytes each for their order, more while it is made
    batch_size: int  # samples of a batch, over all ranks
    batch: int  # bytes of this rank's share of one: its rows as stored, and its tensors
    tables: int  # bytes of sequences, permutations and chunk indexes
    threads: int
    batches: int = LEAST_BATCHES  # in flight at least; 0: counted by another split that is read together with this one
    decoding: int = 1  # chunks that a thread holds while it decodes one; 0: counted by another split
    access: Access = "pools"
    local: bool = True  # in files of this machine
    mappable: bool = False  # all fields are in uncompressed local files
    opening: int = 0  # bytes held while tables are read
    chunk_rows: int = 1
    fetching: int = 0  # bytes held while a copy on this machine is filled
    kept: int = 0  # bytes of the tables for stored chunks of fields whose chunks are of other rows, and their decoding
    fewer_blocks: Callable[[int], PoolLimits] | None = None  # limits with pools of fewer blocks
    fewer_rows: Callable[[int], tuple[PoolLimits, int] | None] | None = None  # of chunks of fewer rows; chunk_tables
    chunk_tables: int = 0  # bytes of those of the tables that grow with the number of chunks
    pool_weights: int = 0  # most weights of a pool's rows, 8 bytes each while its samples are drawn
    retained: int = 0  # bytes that a thread keeps of a batch's tensors, besides these
    map_retained: int = 0  # bytes that a thread keeps of what map= allocates
    map_returned: int = 0  # the same if large blocks are returned to the system
    ahead: int = 0  # bytes for batches in flight beyond the fewest, before rows are kept for another epoch

    @property
    def ledger(self) -> Ledger:
        """Bytes of everything but the rows that a residency keeps, with the fewest batches in flight."""
        return {
            "batches in flight": self.flight(1, 1, returns=True) if self.batches else 0,
            "chunks being decoded": self.encoded,
            "order and tables": self.tables + 5 * 8 * self.pool_samples + 8 * self.pool_weights,
        }

    @property
    def fixed(self) -> int:
        """The sum of :attr:`ledger`."""
        return sum(self.ledger.values())

    def least(self, rows: int) -> int:
        """Least bytes where rows take so many; tables are read before any."""
        return max(self.fixed + rows, self.opening)

    @property
    def encoded(self) -> int:
        """Most bytes of chunks being decoded: one per thread, or all of a piece of work, as a remote store sends it."""
        if self.decoding != 1:
            return min(self.threads, self.pool_chunks) * self.decoding * self.chunk
        if self.local:  # a thread keeps its buffer from pool to pool
            return min(self.threads, self.chunks) * self.chunk
        piece = piece_chunks(self.pool_chunks, self.chunk)
        return self.fetching + min(self.threads * piece, self.pool_chunks) * self.chunk

    @property
    def slots(self) -> int:
        """Chunks of two pools, or of the whole split if that is less."""
        return min(2 * self.pool_chunks, self.chunks)

    @property
    def decoded(self) -> int:
        """Bytes of all chunks that samples are in."""
        return self.chunks * self.chunk

    @property
    def streamed(self) -> int:
        """Least bytes for streaming."""
        return self.least(self.slots * self.chunk)

    @property
    def whole(self) -> int:
        """Least bytes for holding the whole split."""
        return self.least(self.decoded)

    def exceeds(self, budget: int) -> str:
        """Why rows are not held whole."""
        return f"{format_bytes(self.decoded)} decoded and batches in flight exceed the budget of {format_bytes(budget)}"

    @property
    def group_batches(self) -> int:
        """Batches that are best made at once."""
        return max(1, min(GROUP_BYTES // max(self.batch, 1), GROUP_BATCHES))

    def flight(self, groups: int, group_batches: int, *, returns: bool) -> int:
        """Bytes of so many groups of batches in flight and the consumer's, and of what the threads that make them keep.

        ``returns``: whether large blocks that map= allocates are returned to the system.
        """
        copies = 2 if group_batches > 1 else 1  # batches of a group, which has memory of its own
        kept = group_batches * self.retained + (self.map_returned if returns else self.map_retained)
        return (groups + 1) * group_batches * copies * self.batch + min(groups, self.threads) * kept

    def groups(self, group_batches: int) -> int:
        """Bytes of as many groups of so many batches as are in flight where there is room, beyond the fewest."""
        most = self.flight(self.threads + READY_GROUPS, group_batches, returns=True)
        return most - self.flight(1, 1, returns=True)

    def in_flight(self, spare: int) -> InFlight:
        """Batches in flight, within what pools and kept chunks leave."""
        room = spare + self.flight(1, 1, returns=True)
        most = self.threads + READY_GROUPS
        returns = self.flight(most, 1, returns=False) > room and self.map_retained > self.map_returned
        groups = next((groups for groups in range(most, 1, -1) if self.flight(groups, 1, returns=returns) <= room), 1)
        sizes = range(self.group_batches, 1, -1)
        size = next((size for size in sizes if self.flight(groups, size, returns=returns) <= room), 1)
        return InFlight(groups, size, min(groups, self.threads), returns)

    def with_pool(self, blocks: int) -> MemoryEstimate:
        """The same needs with pools of fewer blocks."""
        return self if self.fewer_blocks is None else self._limited(self.fewer_blocks(blocks), pool_blocks=blocks)

    def rechunked(self, rows: int) -> MemoryEstimate | None:
        """The needs of a copy with chunks of fewer rows, and as many blocks in a pool; None if they are not known."""
        fewer = None if self.fewer_rows is None else self.fewer_rows(rows)
        if fewer is None:
            return None
        limits, tables = fewer
        return self._limited(
            limits,
            chunk=-(-self.chunk * rows // self.chunk_rows),
            chunk_rows=rows,
            chunks=-(-self.chunks * self.chunk_rows // rows),
            tables=self.tables - self.kept + tables - self.chunk_tables,
            kept=0,
        )

    def _limited(self, limits: PoolLimits, **changes: Any) -> MemoryEstimate:
        other = replace(self, pool_samples=limits.samples, pool_weights=limits.weights, **changes)
        return replace(other, pool_chunks=other.chunks if limits.chunks is None else limits.chunks)


def memory_estimate(
    sample: SampleBytes,
    limits: PoolLimits,
    world: int,
    *,
    batch_size: int,
    chunks: int,
    tables: int,
    opening: int,
    **others: Any,
) -> MemoryEstimate:
    """What one of ``world`` ranks needs for such samples; bytes of tables are in addition to those of ``limits``."""
    own = -(-batch_size // world)
    return MemoryEstimate(
        chunks=chunks,
        pool_chunks=chunks if limits.chunks is None else limits.chunks,
        pool_samples=limits.samples,
        pool_weights=limits.weights,
        batch_size=batch_size,
        batch=own * (sample.rows + sample.tensors),
        retained=sample.thread(own),
        map_retained=sample.map_retained(own),
        map_returned=sample.map_returned(own),
        tables=limits.table_bytes + tables,
        opening=limits.table_bytes + opening,
        **others,
    )


def measure(
    split: Split, sampler: Sampler, sample: SampleBytes, batch_size: int, pool_blocks: int, world: int, threads: int
) -> MemoryEstimate:
    """What one of ``world`` ranks needs to read a split."""
    dealt = math.gcd(world, sampler.lanes)
    limits = sampler.limits(dealt)
    mask = split.sequences.mask
    tables = split.columns.bytes + (0 if mask is None else mask.nbytes)
    rows = split.rows
    cached = sorted(array.cached_bytes for array in rows.arrays)
    kept = sum(cached) + 2 * sum(cached[-threads:])  # one that is being decoded is there encoded and decoded besides
    of_chunks = table_bytes(rows.chunks, len(rows.fields))

    def fewer_rows(count: int) -> tuple[PoolLimits, int] | None:
        if (other := sampler.with_chunks(count)) is None:
            return None
        less = other.limits(dealt)
        return less, less.table_bytes + table_bytes(-(-rows.chunks * rows.chunk_rows // count), len(rows.fields))

    return memory_estimate(
        sample,
        limits,
        world,
        batch_size=batch_size,
        chunk=rows.row_bytes * rows.chunk_rows,
        chunk_rows=rows.chunk_rows,
        chunks=rows.chunks if split.used is None else len(split.used),
        fewer_blocks=lambda blocks: sampler.with_pool(blocks).limits(dealt),
        fewer_rows=fewer_rows,
        pool_blocks=pool_blocks,
        tables=tables + of_chunks + kept,
        chunk_tables=limits.table_bytes + of_chunks,
        kept=kept,
        opening=tables + (split.sequences.extents_bytes if _reads_extents(split, weights=limits.by_sequence) else 0),
        threads=threads,
        decoding=max(array.decoding for array in rows.fields.values()),
        fetching=max(array.fetching for array in rows.arrays),
        access=sampler.access,
        local=split.local,
        mappable=split.mappable,
    )


def read_together(needs: Sequence[MemoryEstimate]) -> list[MemoryEstimate]:
    """Estimates for splits that are read together: threads, decoded chunks and batches in flight are counted once.

    The same threads serve all splits, and each batch is of one.
    """
    decoding = max(range(len(needs)), key=lambda number: needs[number].encoded)
    widest = max(range(len(needs)), key=lambda number: needs[number].flight(1, 1, returns=True))
    most = {
        name: max(getattr(estimate, name) for estimate in needs)
        for name in ("batch", "retained", "map_retained", "map_returned")
    }
    return [
        replace(
            estimate,
            tables=estimate.tables + (estimate.threads * THREAD_BYTES if number == 0 else 0),
            decoding=estimate.decoding if number == decoding else 0,
            batches=LEAST_BATCHES if number == widest else 0,
            **(most if number == widest else {}),
        )
        for number, estimate in enumerate(needs)
    ]


def _reads_extents(split: Split, *, weights: bool) -> bool:
    window, columns = split.windows.window, split.columns.bytes > 0
    return bool(split.selects) or columns or weights or (window is not None and window.by_sequence)


def stored_bytes(split: Split) -> SampleBytes:
    """Bytes per sample as far as shapes and dtypes tell: its rows, and tensors if they are the stored fields."""
    if not split.windows.samples:
        return SampleBytes(0)
    return _bytes_of(split, blank_rows(split), call=isinstance(split.reading, StoredReading) and not split.transform)


def blank_bytes(split: Split) -> SampleBytes:
    """Bytes per sample, made of rows that are 0."""
    return _bytes_of(split, blank_rows(split), call=bool(split.windows.samples))


def first_bytes(split: Split) -> SampleBytes:
    """Bytes per sample of the first sample of a split, which is read."""
    return _bytes_of(split, _first_rows(split), call=True) if split.windows.samples else SampleBytes(0)


def blank_rows(split: Split) -> dict[str, Any]:
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


def _bytes_of(split: Split, rows: dict[str, Any], *, call: bool) -> SampleBytes:
    own = SAMPLE_BYTES + (split.windows.packs.runs_bytes if split.windows.packs else 0)
    own += sum(array.nbytes for array in rows.values())
    if not call:
        return SampleBytes(own)
    batch = split.reading(rows, np.zeros(1, np.uint64))
    loose = loose_bytes(batch.values(), rows.values())
    tensors = with_columns(batch, split.columns.blank())
    size = sum(tensor.nbytes for tensor in tensors.values())
    if split.transform is None:
        return SampleBytes(own, size, *loose)
    if split.place is not None:
        tensors = {**tensors, "part": torch.tensor([split.place])}
    result, peak = split.transform.check(tensors)
    return SampleBytes(own, size + result, *loose, result, peak)


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


def prove(budget: int, needs: Sequence[MemoryEstimate], rows: Callable[[MemoryEstimate], Ledger]) -> None:
    """Raise BudgetError if this budget does not hold all splits, with the least that does, and what fits this one.

    ``rows`` is what a residency keeps of the rows of a split.
    """

    def least(estimates: Sequence[MemoryEstimate]) -> int:
        return sum(estimate.least(sum(rows(estimate).values())) for estimate in estimates)

    total = least(needs)
    if total <= budget:
        return
    ledger = Counter[str]()
    for estimate in needs:
        ledger.update(rows(estimate))
        ledger.update(estimate.ledger)
    if total > ledger.total():
        ledger["tables while they are read"] = total - ledger.total()
    first, *others = ((name, format_bytes(size)) for name, size in ledger.items() if size)
    parts = f" for each of {len(needs)} parts" if len(needs) > 1 and first[0] in rows(needs[0]) else ""
    message = (
        f"a memory budget of {format_bytes(budget)} is too small: {first[0]}{parts} take {first[1]}"
        f"{''.join(f', {name} {size}' for name, size in others)}; the least that works is {format_least(total)}"
    )
    smaller = _smaller_pool(budget, needs, least)
    ways = [f"pool_blocks={smaller}"] if smaller else []
    batches = sum(estimate.batches * estimate.batch for estimate in needs)
    samples = needs[0].batch_size * (budget - total + batches) // max(batches, 1)
    # A batch of balanced sampling has no size of its own, and where tables are read first, a smaller one saves nothing.
    sized = all(estimate.access != "recurring" and estimate.opening <= estimate.fixed for estimate in needs)
    ways += [f"batch_size={samples}"] if sized and samples > 0 else []
    streams = all(estimate.access != "anywhere" for estimate in needs)
    ways += ["residency='auto'"] if streams and sum(estimate.streamed for estimate in needs) <= budget else []
    message += f", or {' or '.join(ways)} with this budget" if ways else "; no smaller pool or batch fits this budget"
    raise BudgetError(message + ("" if smaller else _smaller_chunks(budget, needs, least)))


def _smaller_pool(budget: int, needs: Sequence[MemoryEstimate], least: Callable[..., int]) -> int:
    """The most blocks of a pool for which the sum was found to fit; 0 if none does."""
    blocks = range(1, needs[0].pool_blocks)
    return bisect_right(blocks, budget, key=lambda fewer: least([estimate.with_pool(fewer) for estimate in needs]))


def _smaller_chunks(budget: int, needs: Sequence[MemoryEstimate], least: Callable[..., int]) -> str:
    """What a copy of the data with smaller chunks would take; "" if none fits."""
    largest = max(needs, key=lambda estimate: estimate.chunk)
    for count in (2**power for power in range(20, 3, -1) if 2**power < largest.chunk_rows):
        copies = [estimate.rechunked(min(count, estimate.chunk_rows)) for estimate in needs]
        if all(copies) and (fitting := least(copies)) <= budget:
            return (
                f"; a chunk of {largest.chunk_rows:,} rows takes {format_bytes(largest.chunk)}: in a copy with "
                f"chunks of {count:,} rows about {format_bytes(fitting)} would do"
            )
    return ""
