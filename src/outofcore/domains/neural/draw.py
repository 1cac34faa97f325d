"""Draw a bin as text: the frame in grey characters, and the responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from outofcore.domains.neural.transforms import bfloat16_values
from outofcore.ndarrays import Doubles
from outofcore.store.schema import Columns

GREYS = " .:-=+*#%@"
WIDEST = 64
MOST_NEURONS = 12


def draw(rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
    """Draw the first of the given bins."""
    kept = (attributes or {}).get("params", {}).get("source", {}).get("stimulus_dtype")
    frames = rows.get("stim")
    if frames is not None and kept == "bfloat16":
        frames = bfloat16_values(frames)
    lines = _frame(frames[0].astype(np.float64)) if frames is not None else []
    responses = [f"{value:g}" if counts else "-" for value, counts in zip(rows["robs"][0], rows["dfs"][0], strict=True)]
    more = f" and {len(responses) - MOST_NEURONS} more" if len(responses) > MOST_NEURONS else ""
    return "\n".join([*lines, f"responses: {' '.join(responses[:MOST_NEURONS])}{more}"])


def _frame(frame: Doubles) -> list[str]:
    frame = frame.reshape(-1, *frame.shape[-2:]).mean(0)
    step = -(-frame.shape[1] // WIDEST)
    # A character is about twice as high as wide.
    small = frame[:: 2 * step, ::step] if frame.shape[0] > 1 else frame[:, ::step]
    low, high = float(frame.min()), float(frame.max())
    level = (small - low) / (high - low) if high > low else np.zeros(small.shape)
    return ["".join(GREYS[int(value * (len(GREYS) - 1))] for value in row) for row in level]
