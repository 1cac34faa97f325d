"""How samples are brought to the clock of the bins: a function each, and its row in :data:`RESAMPLINGS`.

``times`` (samples,) ascend, in nanoseconds; ``edges`` are those of bins, (bins + 1,); ``values`` are (samples,) or
(samples, columns). Results are the value of each bin, (bins,) or (bins, columns), and which bins have one, (bins,).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Ints

Resampled = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]

Resampling = Literal["hold", "mean", "linear"]


def latest(times: Ints, centres: Ints, longest: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Index of the last sample at or before each bin centre, and whether it is at most ``longest`` ns older."""
    index = np.searchsorted(times, centres, side="right") - 1
    present = index >= 0
    index = np.where(present, index, 0)
    if len(times):
        present &= centres - times[index] < longest
    return np.where(present, index, 0), present


def hold(times: Ints, values: npt.NDArray[Any], edges: Ints, longest: int) -> Resampled:
    """The last sample at or before the centre of each bin, at most ``longest`` ns older."""
    place, present = latest(times, centres_of(edges), longest)
    return (values[place] if len(times) else np.zeros((len(place), *values.shape[1:]), values.dtype)), present


def mean(times: Ints, values: npt.NDArray[Any], edges: Ints, longest: int) -> Resampled:
    """Average of the samples in each bin [start, end), NaN if any is; ``longest`` is unused."""
    del longest
    places = np.searchsorted(times, edges, side="left")
    counts = np.diff(places)
    filled = counts > 0
    averages = np.zeros((len(counts), *values.shape[1:]), np.float64)
    if filled.any():
        inside = values[places[0] : places[-1]].astype(np.float64)
        # reduceat would repeat the next sample for an empty bin; the non-empty bins are contiguous.
        with np.errstate(invalid="ignore"):
            totals = np.add.reduceat(inside, places[:-1][filled] - places[0], axis=0)
        averages[filled] = totals / counts[filled].reshape(-1, *(1,) * (values.ndim - 1))
    return averages, filled


def linear(times: Ints, values: npt.NDArray[Any], edges: Ints, longest: int) -> Resampled:
    """Values interpolated at bin centres between samples at most ``longest`` ns apart."""
    centres = centres_of(edges)
    left = np.searchsorted(times, centres, side="right") - 1
    present = left >= 0
    left = np.where(present, left, 0)
    result = np.zeros((len(centres), *values.shape[1:]), np.float64)
    if not len(times):
        return result, present
    right = np.minimum(left + 1, len(times) - 1)
    exact = times[left] == centres
    span = times[right] - times[left]
    present &= exact | ((right > left) & (span <= longest))
    share = np.where(exact, 0.0, (centres - times[left]) / np.maximum(span, 1))
    share = share.reshape(-1, *(1,) * (values.ndim - 1))
    low = values[left].astype(np.float64)
    high = np.where(share == 0, low, values[right].astype(np.float64))
    with np.errstate(invalid="ignore", over="ignore"):
        result[present] = (low + (high - low) * share)[present]
    return result, present


RESAMPLINGS: dict[Resampling, Callable[[Ints, npt.NDArray[Any], Ints, int], Resampled]] = {
    "hold": hold,
    "mean": mean,
    "linear": linear,
}


def centres_of(edges: Ints) -> Ints:
    """Centres of bins between edges."""
    centres: Ints = (edges[:-1] + edges[1:]) // 2
    return centres
