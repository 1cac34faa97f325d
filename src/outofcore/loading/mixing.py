"""How well batches mix, compared with batches drawn from the whole split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outofcore.loading.order import LANES, EpochOrder
from outofcore.loading.split import Split

Ints = npt.NDArray[np.int64]

# Total variation distance from the split's labels beyond which a pool is not a fair sample: at 0.08 a small network
# ended with a loss 2 % above that of full shuffling, at 0.15 with one 5 % above (bench/loader_mixing.py).
SKEWED = 0.1


@dataclass(frozen=True)
class Mixing:
    """Expected content of a batch."""

    blocks: float  # distinct blocks per batch
    blocks_ideal: float  # for a random batch from the whole split
    sequences: float  # distinct sequences per batch
    sequences_ideal: float  # for a random batch from the whole split
    label_distance: float | None  # total variation distance of pool labels from the split's, 0 to 1; mean of some pools

    def text(self, batch: int, label: str | None) -> str:
        """One readable line."""
        line = (
            f"a batch of {batch:,} mixes {self.blocks:,.0f} blocks (at random {self.blocks_ideal:,.0f}) and "
            f"{self.sequences:,.0f} sequences (at random {self.sequences_ideal:,.0f})"
        )
        if self.label_distance is None:
            return line
        line += f"; labels in memory are {self.label_distance:.0%} off those of the split"
        if self.label_distance > SKEWED:
            line += (
                f": the store is sorted by {label}; take more pool_blocks, of a store with smaller chunk_rows where "
                "memory is short, or shuffle='full'"
            )
        return line


def expected_distinct(kinds: float, draws: float) -> float:
    """Expected number of distinct kinds in this many uniform draws."""
    if kinds <= 1:
        return min(kinds, draws)
    return float(kinds * -np.expm1(draws * np.log1p(-1 / kinds)))


def measure_mixing(split: Split, order: EpochOrder, batch: int, label: str | None) -> Mixing:
    """Expected content of an epoch's batches of ``batch`` samples over all ranks.

    ``label`` is a column of the sequences whose values should mix, or None.
    """
    cut = order.cut
    batch = min(batch, cut.samples)
    all_blocks = max(1, -(-cut.samples // cut.block))
    all_sequences = max(1, len(split.sequences))
    pool = order.pool_start(1) - order.pool_start(0)
    if cut.shuffle == "full" or (order.pools == 1 and cut.shuffle is not False):
        pool = cut.samples
    pool_blocks, pool_sequences = pool / cut.block, max(1.0, all_sequences * pool / max(cut.samples, 1))
    blocks: float
    sequences: float
    if cut.shuffle is False:
        blocks, sequences = -(-batch // cut.block), batch * all_sequences / max(cut.samples, 1)
    elif cut.shuffle == "full":
        blocks, sequences = expected_distinct(all_blocks, batch), expected_distinct(all_sequences, batch)
    else:  # each lane contributes its share
        lane = max(1.0, pool_blocks / LANES)
        blocks = min(pool_blocks, LANES * expected_distinct(lane, batch / LANES))
        sequences = LANES * expected_distinct(pool_sequences / LANES, batch / LANES)
    distance = _label_distance(split, order, label) if label and cut.shuffle in ("blocks", True) else None
    return Mixing(
        blocks=blocks,
        blocks_ideal=expected_distinct(all_blocks, batch),
        sequences=max(1.0, sequences),
        sequences_ideal=expected_distinct(all_sequences, batch),
        label_distance=distance,
    )


def _label_distance(split: Split, order: EpochOrder, label: str) -> float:
    values = split.sequences[label].read()
    starts, lengths = split.store.extents(split.name, split.part)
    _, codes = np.unique(values, return_inverse=True)
    whole = np.bincount(codes, weights=lengths)
    distances = []
    for pool in range(0, order.pools, max(1, order.pools // 8)):
        rows = np.maximum(split.windows.first_rows(order.samples(pool)), 0)
        sequence = np.searchsorted(starts, rows, "right") - 1
        here = np.bincount(codes[sequence], minlength=len(whole))
        distances.append(np.abs(here / here.sum() - whole / whole.sum()).sum() / 2)
    return float(np.mean(distances))
