"""From the user's arguments to a draft of each split: samples, order, reading, and memory needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcore.errors import ParamsError
from outofcore.loading.balanced import Balanced, BalancedSampler
from outofcore.loading.budget import Needs, batches_together
from outofcore.loading.mixing import measure_mixing
from outofcore.loading.order import PlainSampler, Sampler, Shuffle, cut_samples
from outofcore.loading.split import Split
from outofcore.loading.weighted import Weighted, WeightedSampler


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The user's arguments that apply to all parts."""

    batch_size: int  # samples per batch
    shuffle: Shuffle
    seed: int
    pool_blocks: int
    block_rows: int | None
    balanced: Balanced | None
    weighted: Weighted | None
    label: str | None  # column whose mixing is measured
    world: int  # number of ranks
    threads: int


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A split as it will be read, before its residency is chosen."""

    split: Split
    sampler: Sampler
    needs: Needs
    mixing: str  # one line on how well batches mix


def draft(source: Split, wish: Wish) -> Draft:
    """Determine what reading a split takes; reads no row but the first sample."""
    if wish.label is not None:
        source.sequences[wish.label]  # an unknown one is an error, even if the order ignores it
    sampler, mixing = _sampler(source, wish)
    if 0 < sampler.positions < wish.world:
        message = f"{source.store.root}: {source.path} has {sampler.positions} samples for {wish.world} ranks"
        raise ParamsError(message)
    batch = -(-wish.batch_size // wish.world) * _sample_bytes(source)
    needs = Needs(
        chunk=source.row_bytes * source.chunk_rows,
        chunks=source.chunks,
        pool_chunks=sampler.pool_chunks(wish.world),
        pool_samples=sampler.pool_samples(wish.world),
        batch=batch,
        together=batches_together(batch),
        tables=sampler.table_bytes + 16 * source.chunks * len(source.fields),
        threads=wish.threads,
    )
    return Draft(split=source, sampler=sampler, needs=needs, mixing=mixing)


def _sampler(source: Split, wish: Wish) -> tuple[Sampler, str]:
    if wish.balanced is not None:
        balanced = wish.balanced
        shape = f"{balanced.groups} groups x {balanced.entries} entries x {balanced.rows} rows"
        groups = BalancedSampler(balanced, source.windows, wish.seed, source.chunk_rows)
        return groups, f"a batch is {shape}, of {groups.groups:,} groups with {len(groups.first):,} entries"
    cut = cut_samples(source.windows, source.chunk_rows, wish.shuffle, wish.pool_blocks, wish.block_rows)
    plain = PlainSampler(source.windows, cut, wish.seed, source.chunk_rows)
    mixing = measure_mixing(source, plain.epoch(0), wish.batch_size, wish.label)
    line = mixing.text(wish.batch_size, wish.label)
    if wish.weighted is not None:
        weighted = WeightedSampler(source, plain, wish.weighted, wish.seed)
        return weighted, f"{weighted.positions:,} draws by {wish.weighted.column}; {line}"
    return plain, line


def _sample_bytes(source: Split) -> int:
    """Bytes per sample in a batch, rows and tensors, from the first sample of the split."""
    length = source.windows.length
    if source.windows.rows < length:
        return 0
    window = (length,) if length > 1 else ()
    rows: dict[str, Any] = {
        name: array.read(0, length).reshape(1, *window, *array.shape[1:]) for name, array in source.fields.items()
    }
    stored = sum(array.nbytes for array in rows.values())
    return int(stored + sum(tensor.nbytes for tensor in source.reading(rows, np.zeros(1, np.uint64)).values()))
