"""Response statistics that a model needs before it is built: a pass over the responses, not the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.params import NeuralSection
from outofcore.errors import ParamsError

if TYPE_CHECKING:
    from outofcore.store.reader import Store

ROWS_AT_ONCE = 4096


def moments(store: Store, part: str, section: NeuralSection) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Mean and standard deviation of each neuron's unmasked train responses, and their number.

    Raises ParamsError for negative responses with a loss for counts.
    """
    table = store.rows("train", part)
    sums = np.zeros((3, table["robs"].shape[1]))
    lowest = 0.0
    for start in range(0, len(table), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(table))
        robs, counts = table["robs"].read(start, stop).astype(np.float64), table["dfs"].read(start, stop) != 0
        sums += np.stack([counts.sum(0), (robs * counts).sum(0), (robs**2 * counts).sum(0)])
        lowest = min(lowest, float(robs.min(initial=0, where=counts)))
    if lowest < 0 and section.train.loss == "poisson":
        message = (
            f"neural.train.loss: poisson needs counts or rates, and session {part} has a response of {lowest:g}; "
            "set it to squared"
        )
        raise ParamsError(message)
    count = np.maximum(sums[0], 1)
    mean = sums[1] / count
    spread = np.sqrt(np.maximum(sums[2] / count - mean**2, 0))
    return tuple(mean.tolist()), tuple(spread.tolist()), int(sums[0].sum())


def repeated_conditions(store: Store, part: str) -> npt.NDArray[np.int64]:
    """Conditions with at least two repeats in the validation split, ascending."""
    table = store.rows("val", part)
    counts = np.zeros(int(store.part_attributes(part)["conditions"]), np.int64)
    for start in range(0, len(table) if len(counts) else 0, ROWS_AT_ONCE * 16):
        condition = table["condition"].read(start, min(start + ROWS_AT_ONCE * 16, len(table)))
        counts += np.bincount(condition[condition >= 0], minlength=len(counts))
    return np.flatnonzero(counts > 1)
