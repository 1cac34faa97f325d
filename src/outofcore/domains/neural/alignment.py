"""Samples on a clock of their own, brought to bins: held, averaged, interpolated, or counted.

All functions take ascending times in nanoseconds without invalid ones. What a bin gets depends on the samples around it
alone, so that a recording may be aligned in pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.clocks import Times


def hold(times: Times, centres: Times, longest: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The last sample at or before the centre of each bin: the frame that is on the screen there.

    Parameters
    ----------
    times
        Of the samples, shape (samples,).
    centres
        Of the bins, shape (bins,).
    longest
        Nanoseconds for which a sample counts; a bin further away from it is in a gap.

    Returns
    -------
    Index into ``times`` for each bin (0 where there is none), and whether there is one.
    """
    index = np.searchsorted(times, centres, side="right") - 1
    there = index >= 0
    index = np.where(there, index, 0)
    if len(times):
        there &= centres - times[index] < longest
    return np.where(there, index, 0), there


def mean(times: Times, values: npt.NDArray[Any], edges: Times) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Average of the samples inside each bin, its beginning included and its end not.

    Returns
    -------
    Averages, shape (bins, ...), not-a-number where a sample is; and which bins hold a sample, shape (bins,).
    """
    places = np.searchsorted(times, edges, side="left")
    counts = np.diff(places)
    filled = counts > 0
    averages = np.zeros((len(counts), *values.shape[1:]), np.float64)
    if filled.any():
        inside = values[places[0] : places[-1]].astype(np.float64)
        # Bins without a sample would repeat the sample after them; the others follow each other without a gap.
        with np.errstate(invalid="ignore"):
            totals = np.add.reduceat(inside, places[:-1][filled] - places[0], axis=0)
        averages[filled] = totals / counts[filled].reshape(-1, *(1,) * (values.ndim - 1))
    return averages, filled


def linear(
    times: Times, values: npt.NDArray[Any], centres: Times, longest: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Value at the centre of each bin on a straight line between the samples on both sides.

    Parameters
    ----------
    times, values
        Samples, shapes (samples,) and (samples, ...).
    centres
        Of the bins.
    longest
        Nanoseconds between two samples over which a line is drawn.

    Returns
    -------
    Values, shape (bins, ...), and which bins have one, shape (bins,).
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
    """Number of times in each bin, its beginning included and its end not, shape (bins,)."""
    return np.diff(np.searchsorted(times, edges, side="left"))


def histogram_by(times: Times, owner: npt.NDArray[np.int64], owners: int, edges: Times) -> npt.NDArray[np.int64]:
    """Number of times in each bin for each owner, shape (bins, owners); ``owner`` (times,) says whose each is."""
    place = np.searchsorted(edges, times, side="right") - 1
    inside = (place >= 0) & (place < len(edges) - 1)
    flat = place[inside] * owners + owner[inside]
    return np.bincount(flat, minlength=(len(edges) - 1) * owners).reshape(-1, owners)
