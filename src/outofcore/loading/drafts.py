"""From the user's arguments to a draft of each split: samples, order, reading, and memory needs."""

from __future__ import annotations

from dataclasses import dataclass

from outofcore.errors import ParamsError
from outofcore.loading.balanced import Balanced, BalancedSampler
from outofcore.loading.memory import Needs, measure
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
    needs = measure(source, sampler, wish.batch_size, wish.pool_blocks, wish.world, wish.threads)
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
