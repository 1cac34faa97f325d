"""How far the labels of pools are off those of the split."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from outofcore.loading.split import Split
from outofcore.ndarrays import Ints

# Total variation distance from the split's labels beyond which a pool is not a fair sample: at 0.08 a small network
# ended with a loss 2 % above that of full shuffling, at 0.15 with one 5 % above.
SKEWED = 0.1


def label_note(split: Split, label: str, pools: Iterable[Ints]) -> str:
    """How far labels of pools, given as sample numbers, are off those of the split, and what to do if it is far."""
    distance = _label_distance(split, label, pools)
    note = f"; labels in memory are {distance:.0%} off those of the split"
    if distance > SKEWED:
        note += (
            f": the store is sorted by {label}; take more pool_blocks, of a store with smaller chunk_rows where "
            "memory is short, or shuffle='full'"
        )
    return note


def _label_distance(split: Split, label: str, pools: Iterable[Ints]) -> float:
    values = split.sequences.read(label)
    starts, lengths = split.sequences.extents()
    if split.sequences.mask is not None:
        lengths = lengths * split.sequences.mask
    _, codes = np.unique(values, return_inverse=True)
    whole = np.bincount(codes, weights=lengths)
    distances = []
    for samples in pools:
        rows = np.maximum(split.windows.first_rows(samples), 0)
        sequence = np.searchsorted(starts, rows, "right") - 1
        here = np.bincount(codes[sequence], minlength=len(whole))
        distances.append(np.abs(here / here.sum() - whole / whole.sum()).sum() / 2)
    return float(np.mean(distances))
