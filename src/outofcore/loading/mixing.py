"""How far the values of a column in memory at a time are off those of the split."""

from __future__ import annotations

import numpy as np

from outofcore.errors import ParamsError
from outofcore.loading.split import Split
from outofcore.order.plain import PlainSampler
from outofcore.order.sampling import Sampler
from outofcore.order.weighted import WeightedSampler

# Total variation distance from the split's labels beyond which a pool is not a fair sample: at 0.08 a small network
# ended with a loss 2 % above that of full shuffling, at 0.15 with one 5 % above.
SKEWED = 0.1

_MOST_LABELS = 1 << 16  # of a column, which are held
_POOLS = 8  # that are compared


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
