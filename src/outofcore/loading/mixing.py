"""How well batches mix, compared with batches drawn from the whole split."""

from __future__ import annotations

import numpy as np

from outofcore.loading.balanced import BalancedSampler
from outofcore.loading.mixture import MixtureSampler
from outofcore.loading.order import EpochOrder, PlainSampler, Sampler
from outofcore.loading.split import Split
from outofcore.loading.weighted import WeightedSampler

# Total variation distance from the split's labels beyond which a pool is not a fair sample: at 0.08 a small network
# ended with a loss 2 % above that of full shuffling, at 0.15 with one 5 % above.
SKEWED = 0.1


def mixing_line(split: Split, sampler: Sampler, batch: int, label: str | None) -> str:
    """One line on what to expect of batches; ``label`` is a column of the sequences whose values should mix."""
    if label is not None:
        split.sequences[label]  # an unknown one is an error, even if the order ignores it
    if isinstance(sampler, BalancedSampler):
        shape = f"{sampler.balanced.groups} groups x {sampler.balanced.entries} entries x {sampler.balanced.rows} rows"
        return f"a batch is {shape}, of {sampler.groups:,} groups with {len(sampler.first):,} entries"
    if isinstance(sampler, WeightedSampler):
        line = mixing_line(split, sampler.plain, batch, label)
        return f"{sampler.positions:,} draws by {sampler.weighted.column}; {line}"
    if isinstance(sampler, MixtureSampler):
        return f"{sampler.positions:,} samples of {len(sampler.sources)} sources"
    assert isinstance(sampler, PlainSampler)
    if not sampler.positions:
        windows = sampler.windows
        shorter = f"no sequence has the {windows.length:,} rows of a window; ask for shorter ones (lags=, seq_len=)"
        why = shorter if windows.rows else "the split has no rows"
        if windows.rows and not split.sequences.selected:
            why = f"no sequence of {split.path} is one where {split.selects}"
        return f"no samples, so no batches: {why}"
    order = sampler.epoch(0)
    if sampler.shuffle is False:
        return "samples in the order of the store"
    draws = min(batch, sampler.positions)
    all_blocks, all_sequences = len(sampler.blocks(0)) - 1, max(1, split.sequences.selected)
    blocks, sequences = _distinct(sampler, order.pools, draws, all_blocks, all_sequences)
    line = (
        f"a batch of {batch:,} is drawn from {_counted(blocks, 'block')} and {_counted(sequences, 'sequence')}; rows "
        f"chosen at random would be of {_expected(all_blocks, draws):,.0f} and {_expected(all_sequences, draws):,.0f}"
    )
    if not label or not sampler.mixed:
        return line
    distance = _label_distance(split, order, label)
    line += f"; labels in memory are {distance:.0%} off those of the split"
    if distance > SKEWED:
        line += (
            f": the store is sorted by {label}; take more pool_blocks, of a store with smaller chunk_rows where "
            "memory is short, or shuffle='full'"
        )
    return line


def _counted(count: float, name: str) -> str:
    whole = max(1, round(count))
    return f"{whole:,} {name}{'s' if whole > 1 else ''}"


def _distinct(
    sampler: PlainSampler, pools: int, draws: int, all_blocks: int, all_sequences: int
) -> tuple[float, float]:
    """Expected number of distinct blocks and sequences in a batch from an average pool."""
    if not sampler.mixed:
        return _expected(all_blocks, draws), _expected(all_sequences, draws)
    # Each lane contributes its share.
    kinds = [max(1.0, each / pools) for each in (all_blocks, all_sequences)]
    blocks, sequences = (sampler.lanes * _expected(each / sampler.lanes, draws / sampler.lanes) for each in kinds)
    return min(kinds[0], blocks), sequences


def _expected(kinds: float, draws: float) -> float:
    """Expected number of distinct kinds in this many uniform draws."""
    if kinds <= 1:
        return min(kinds, draws)
    return float(kinds * -np.expm1(draws * np.log1p(-1 / kinds)))


def _label_distance(split: Split, order: EpochOrder, label: str) -> float:
    values = split.sequences.read(label)
    starts, lengths = split.sequences.extents()
    if split.sequences.mask is not None:
        lengths = lengths * split.sequences.mask
    _, codes = np.unique(values, return_inverse=True)
    whole = np.bincount(codes, weights=lengths)
    distances = []
    for pool in range(0, order.pools, max(1, order.pools // 8)):
        rows = np.maximum(split.windows.first_rows(order.samples(pool)), 0)
        sequence = np.searchsorted(starts, rows, "right") - 1
        here = np.bincount(codes[sequence], minlength=len(whole))
        distances.append(np.abs(here / here.sum() - whole / whole.sum()).sum() / 2)
    return float(np.mean(distances))
