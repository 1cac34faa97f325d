"""Sums over repeats, from rows as a store holds them: what the task adds up batch by batch."""

from __future__ import annotations

import numpy as np


def repeat_sums(responses, valid, condition, conditions):
    """Sums over repeats, from rows of a store; without predictions, whose sums are NaN.

    Parameters
    ----------
    responses, valid
        ``robs`` and ``dfs``, (bins, neurons).
    condition
        (bins,); bins with a negative one do not count.
    conditions
        How many there are.
    """
    shown = condition >= 0
    place = condition[shown]
    mask = valid[shown].astype(np.float64)
    values = responses[shown].astype(np.float64) * mask
    shape = (conditions, responses.shape[1])
    sums = [np.zeros(shape) for _ in range(3)]
    for total, addend in zip(sums, (mask, values, values**2), strict=True):
        np.add.at(total, place, addend)
    names, unknown = ("repeats", "responses", "squares"), np.full(shape, np.nan)
    return dict(zip(names, sums, strict=True)) | {"errors": unknown, "rates": unknown}
