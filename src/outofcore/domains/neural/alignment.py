"""Align samples to bins: hold, average, interpolate or count.

Times are ascending, valid nanoseconds. The value of a bin depends only on nearby samples, so a recording can be aligned
in pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import Times


def hold(times: Times, centres: Times, longest: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Index of the last sample at or before each bin centre (0 if none), and whether there is one.

    A sample older than ``longest`` nanoseconds does not count.
    """
    index = np.searchsorted(times, centres, side="right") - 1
    there = index >= 0
    index = np.where(there, index, 0)
    if len(times):
        there &= centres - times[index] < longest
    return np.where(there, index, 0), there


def mean(times: Times, values: npt.NDArray[Any], edges: Times) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Average of the samples in each bin [start, end), shape (bins, ...), and which bins hold a sample.

    NaN if any of a bin's samples is.
    """
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


def linear(
    times: Times, values: npt.NDArray[Any], centres: Times, longest: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Values interpolated at bin centres, shape (bins, ...), and which bins have one.

    No interpolation across more than ``longest`` nanoseconds between two samples.
    """
    left = np.searchsorted(times, centres, side="right") - 1
    there = left >= 0
    left = np.where(there, left, 0)
    result = np.zeros((len(centres), *values.shape[1:]), np.float64)
    if not len(times):
        return result, there
    right = np.minimum(left + 1, len(times) - 1)
    exact = times[left] == centres
    span = times[right] - times[left]
    there &= exact | ((right > left) & (span <= longest))
    share = np.where(exact, 0.0, (centres - times[left]) / np.maximum(span, 1))
    share = share.reshape(-1, *(1,) * (values.ndim - 1))
    low = values[left].astype(np.float64)
    high = np.where(share == 0, low, values[right].astype(np.float64))
    with np.errstate(invalid="ignore", over="ignore"):
        result[there] = (low + (high - low) * share)[there]
    return result, there


def histogram(times: Times, edges: Times) -> npt.NDArray[np.int64]:
    """Number of times in each bin [start, end), shape (bins,)."""
    return np.diff(np.searchsorted(times, edges, side="left"))


def histogram_by(times: Times, owner: npt.NDArray[np.int64], owners: int, edges: Times) -> npt.NDArray[np.int64]:
    """Number of times per bin and owner, shape (bins, owners); ``owner`` has shape (times,)."""
    place = np.searchsorted(edges, times, side="right") - 1
    inside = (place >= 0) & (place < len(edges) - 1)
    flat = place[inside] * owners + owner[inside]
    return np.bincount(flat, minlength=(len(edges) - 1) * owners).reshape(-1, owners)
