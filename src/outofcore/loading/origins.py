"""Where the rows of samples come from, and how they mix: from the order and tables of sequences; no row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from outofcore.checks import refuse
from outofcore.domains.registry import DOMAINS
from outofcore.errors import ParamsError
from outofcore.loading.epoch import SplitReader
from outofcore.loading.split import Split
from outofcore.ndarrays import Ints
from outofcore.order.batching import StepOrder
from outofcore.order.plain import PlainSampler
from outofcore.order.sampling import Sampler
from outofcore.order.weighted import WeightedSampler
from outofcore.store.array import Array
from outofcore.store.reader import Store

Record = tuple[str | None, int, int | None]
"""Raw file, member and offset."""

_EXTENTS = ("start", "length")
_UNKNOWN = (None, 0, None)
_SLAB = 1 << 14  # samples whose rows are compared at a time

# Total variation distance from the split's labels beyond which a pool is not a fair sample: at 0.08 a small network
# ended with a loss 2 % above that of full shuffling, at 0.15 with one 5 % above.
SKEWED = 0.1
_MOST_LABELS = 1 << 16  # of a column, which are held
_POOLS = 8  # whose labels are compared


@dataclass(frozen=True)
class Origin:
    """Rows of a sample that belong to one sequence, and the record of the raw input that it was made of."""

    sample: int  # its place in the batch, over all ranks
    store: str  # folder or address
    part: str
    split: str
    row: int  # the first, in that split of that store
    rows: int
    sequence: int | None = None  # in that split of that store; None if the store has no table of them
    place: int | None = None  # of the first row in that sequence
    file: str | None = None  # raw file, as the store's sources name it; None if the store has none
    member: int = 0  # file inside that archive, in its order; 0 where it is no archive
    offset: int | None = None  # of the record in the decompressed file, in bytes; of a recording, in bins
    columns: dict[str, Any] = field(default_factory=dict)  # of the sequence

    @property
    def record(self) -> str:
        """``file:offset``, or ``file:member:offset`` in an archive, after its first member; "" if unknown."""
        inside = f":{self.member}" if self.member else ""
        return f"{self.file}{inside}:{self.offset}" if self.file else ""


class Appearance(NamedTuple):
    """A batch that has rows of a record."""

    epoch: int
    step: int  # of that epoch, from 1
    samples: int


def origins_of_step(readers: Sequence[SplitReader], steps: StepOrder, epoch: int, step: int) -> list[Origin]:
    """Where the samples of the batch of a step come from, counted from 0 in its epoch; see :meth:`Loader.trace`."""
    starts, turns = steps.rest(epoch, steps.received_before(epoch, step))
    part = int(turns[0]) if len(turns) else 0
    reader, first = readers[part], list[Ints]()
    begin, stop = next(steps.batching.spans(starts[part], reader.sampler.positions))
    for pool_start, rows in reader.first_rows(epoch, begin, steps.batching):
        first.append(rows[max(begin - pool_start, 0) : stop - pool_start])
        if pool_start + len(rows) >= stop:
            break
    return origins_of(reader.split, np.concatenate(first))


def appearances(readers: Sequence[SplitReader], steps: StepOrder, record: str, epochs: int) -> list[Appearance]:
    """The batches of the first epochs that have rows of a record; see :meth:`Loader.steps_of`."""
    ranges, result = [rows_of(reader.split, record) for reader in readers], list[Appearance]()
    for epoch in range(epochs):
        turns, counts = steps.of_epoch(epoch)[0] if len(readers) > 1 else None, Counter[int]()
        for part, reader in enumerate(readers):
            edges = [0, *(stop for _, stop in steps.batching.spans(0, reader.sampler.positions))]
            for pool_start, first in reader.first_rows(epoch, 0, steps.batching) if ranges[part] else ():
                positions = pool_start + samples_with(reader.split, first, ranges[part])
                batches = np.searchsorted(edges, positions[positions < edges[-1]], "right") - 1
                counts.update(((batches if turns is None else np.flatnonzero(turns == part)[batches]) + 1).tolist())
        result += [Appearance(epoch, step, counts[step]) for step in sorted(counts)]
    return result


def pieces(split: Split, first: Ints) -> tuple[Ints, Ints, Ints]:
    """Sample, first row and length of the runs of rows of samples with these first rows, without padding."""
    windows = split.windows
    if windows.packs is None:
        begin = windows.stored(first)
        return np.arange(len(first)), begin, first + windows.length - begin
    starts, lengths, _ = windows.packs.runs(first)
    padding = lengths <= 0  # a run that ends each sample
    return (np.cumsum(padding) - padding)[~padding], starts[~padding], lengths[~padding]


def origins_of(split: Split, first: Ints) -> list[Origin]:
    """The origins of samples with these first rows, sample after sample."""
    sample, begin, count = pieces(split, first)
    store_of_run = split.rows.store_of(begin)
    origins: list[Origin] = []
    for number in np.unique(store_of_run).tolist():
        runs = store_of_run == number
        rows = begin[runs] - split.rows.origins[number]
        origins += _in_store(split, split.stores[number], sample[runs], rows, count[runs])
    return sorted(origins, key=lambda origin: origin.sample)


def sequences_of(store: Store, split: str, part: str, record: str) -> Ints:
    """The sequences of a split that a record of the raw input became, most often one; see :attr:`Origin.record`."""
    table = store.sequences(split, part)
    if store.domain not in DOMAINS or "offset" not in table.fields:
        raise ParamsError(f"{store.root}: its sequences do not say which record of which raw file they are")
    named, _, offset = record.rpartition(":")
    file, _, member = named.rpartition(":")
    if not offset.isdecimal():
        refuse("record", "a raw file and a byte offset, such as games.pgn:12345", record)
    wanted: dict[str, Any] = {"source": named, "offset": int(offset)}
    if table["source"].dtype != "O":  # numbers of rows of the table of sources
        names = store.sources["name"].read().tolist()
        if named in names or not member.isdecimal():
            file, member = named, "0"
        wanted["source"] = names.index(file) if file in names else -1
        wanted |= {"member": int(member)} if "member" in table.fields else {}
    numbers, begin = [np.empty(0, np.int64)], 0
    for block in table.blocks(table["offset"].chunk_rows, *wanted):
        numbers.append(begin + np.flatnonzero(np.all([block[name] == value for name, value in wanted.items()], axis=0)))
        begin += len(block["offset"])
    return np.concatenate(numbers)


def rows_of(split: Split, record: str) -> list[tuple[int, int]]:
    """First row, and the one after the last, of each sequence of a record, over all stores of a split."""
    ranges: list[tuple[int, int]] = []
    for store, origin in zip(split.stores, split.rows.origins, strict=True):
        numbers, table = (
            sequences_of(store, split.name, split.part, record),
            store.sequences(split.name, split.part),
        )
        starts, lengths = (np.array(_values(table[name], numbers), np.int64) for name in _EXTENTS)
        ranges += zip((origin + starts).tolist(), (origin + starts + lengths).tolist(), strict=True)
    return ranges


def samples_with(split: Split, first: Ints, ranges: Iterable[tuple[int, int]]) -> Ints:
    """Which of the samples with these first rows have rows of some ranges."""
    chosen = np.zeros(len(first), np.bool_)
    for low, high in pairwise([*range(0, len(first), _SLAB), len(first)]):
        sample, begin, count = pieces(split, first[low:high])
        for start, stop in ranges:
            chosen[low + sample[(begin < stop) & (begin + count > start)]] = True
    return np.flatnonzero(chosen)


def _in_store(split: Split, store: Store, sample: Ints, rows: Ints, count: Ints) -> list[Origin]:
    """Origins of runs of rows of one store."""
    where = str(store.root), split.part, split.name
    if not store.seal.files:  # others than outofcore write no sequences
        runs = zip(sample.tolist(), rows.tolist(), count.tolist(), strict=True)
        return [Origin(number, *where, row, size) for number, row, size in runs]
    table = store.sequences(split.name, split.part)
    low, high = (_sequences_with(table["start"], edge) for edge in (rows, rows + count - 1))
    touched = high - low + 1
    run = np.repeat(np.arange(len(rows)), touched)
    sequence = np.arange(len(run)) + np.repeat(low - np.cumsum(touched) + touched, touched)
    starts, lengths = (np.array(_values(table[name], sequence), np.int64) for name in _EXTENTS)
    first = np.maximum(rows[run], starts)
    size = np.minimum(rows[run] + count[run], starts + lengths) - first
    numbers = np.stack([sample[run], first, size, sequence, first - starts], 1)[lengths > 0].tolist()
    sequence = sequence[lengths > 0]
    columns, records = columns_of(store, split.name, split.part, sequence)
    return [
        Origin(
            at, *where, row, size, number, place, *records[entry], {name: some[entry] for name, some in columns.items()}
        )
        for entry, (at, row, size, number, place) in enumerate(numbers)
    ]


def _sequences_with(start: Array, rows: Ints) -> Ints:
    """The last sequence that starts at or before each row, by a binary search among the chunks of a table."""
    numbers, order = np.empty(len(rows), np.int64), np.argsort(rows)
    ascending = rows[order]
    spans = [(0, start.chunks, 0, len(rows))]  # of chunks, and of the rows whose sequences start in these
    while spans:
        low, high, begin, end = spans.pop()
        middle = (low + high) // 2 * start.chunk_rows
        if begin == end:
            continue
        values = start.read(middle, min(middle + start.chunk_rows, len(start)))
        if high - low == 1:
            numbers[order[begin:end]] = middle + np.searchsorted(values, ascending[begin:end], "right") - 1
            continue
        cut = begin + int(np.searchsorted(ascending[begin:end], values[0]))
        spans += [(low, (low + high) // 2, begin, cut), ((low + high) // 2, high, cut, end)]
    return numbers


def columns_of(store: Store, split: str, part: str, numbers: Ints) -> tuple[dict[str, list[Any]], list[Record]]:
    """The columns of some sequences of a store by name, and the record of each."""
    table = store.sequences(split, part)
    columns = {name: _values(array, numbers) for name, array in table.fields.items() if name not in _EXTENTS}
    if store.domain not in DOMAINS or "offset" not in columns:
        return columns, [_UNKNOWN] * len(numbers)
    sources, offsets = columns.pop("source"), columns.pop("offset")
    members = columns.pop("member", [0] * len(numbers))
    if table["source"].dtype != "O":  # numbers of rows of the table of sources
        names = store.sources["name"].read().tolist()
        sources = [names[source] for source in sources]
    return columns, list(zip(sources, members, offsets, strict=True))


def _values(column: Array, numbers: Ints) -> list[Any]:
    """Values of some sequences; each chunk that has one is decoded once."""
    chunks = numbers // column.chunk_rows
    values: list[Any] = [None] * len(numbers)
    for chunk in np.unique(chunks).tolist():
        begin = chunk * column.chunk_rows
        block = column.read(begin, min(begin + column.chunk_rows, len(column))).tolist()
        for place in np.flatnonzero(chunks == chunk).tolist():
            values[place] = block[numbers[place] - begin]
    return values


def mixing_of(split: Split, sampler: Sampler, column: str) -> str:
    """How far labels of pools are off those of the split, and what to do if it is far."""
    plain = sampler.plain if isinstance(sampler, WeightedSampler) else sampler
    if not isinstance(plain, PlainSampler) or not plain.mixed:
        raise ParamsError(f"mixing: {split.path} is not read pool by pool: expected Shuffle or Weighted")
    labels, count = _labels(split, column)
    starts, lengths = split.sequences.extents()
    if split.sequences.mask is not None:
        lengths = lengths * split.sequences.mask
    shares, distances, order = np.bincount(labels, weights=lengths, minlength=count), list[float](), plain.epoch(0)
    for pool in range(0, order.pools, max(1, order.pools // _POOLS)):
        rows = np.maximum(split.windows.first_rows(order.samples(pool)), 0)
        sequences = np.searchsorted(starts, rows, "right") - 1
        pool_shares = np.bincount(labels[sequences], minlength=count)
        distances.append(float(np.abs(pool_shares / len(rows) - shares / shares.sum()).sum()) / 2)
    distance = sum(distances) / max(len(distances), 1)
    line = f"{split.path}: values of {column} in memory are {distance:.0%} off those of the split"
    if distance <= SKEWED:
        return line
    return (
        f"{line}: the store is sorted by {column}; take more pool_blocks, of a store with smaller chunk_rows where "
        "memory is short, or Shuffle(full=True)"
    )


def _labels(split: Split, column: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], int]:
    """The number of each sequence's value among those of a column, int32 (sequences,), and how many there are."""
    array, numbers = split.sequences[column], dict[object, int]()
    labels = np.empty(len(split.sequences), np.int32)
    if len(array.shape) != 1:
        raise ParamsError(f"mixing: expected one value per sequence, got {column!r} of shape {array.shape}")
    for slab, values in split.sequences.slabs([column]):
        distinct, inverse = np.unique(values[column], return_inverse=True)
        new = [numbers.setdefault(value, len(numbers)) for value in distinct.tolist()]
        if len(numbers) > _MOST_LABELS:
            raise ParamsError(f"mixing: {column!r} has more than {_MOST_LABELS:,} values: expected a column of labels")
        labels[slab] = np.array(new, np.int32)[inverse]
    return labels, len(numbers)
