"""Draw a bin as text: the frame in grey characters, and the responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outofcore.domains.neural.gallery import grey_frames
from outofcore.store.schema import Columns

GREYS = " .:-=+*#%@"
WIDEST = 64
MOST_NEURONS = 12


def draw(rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
    """Draw the first of the given bins."""
    lines = []
    if "stim" in rows:
        kept = (attributes or {}).get("params", {}).get("source", {}).get("stimulus_dtype", "")
        (frame,) = grey_frames(rows["stim"][:1], kept)
        step = -(-frame.shape[1] // WIDEST)
        # A character is about twice as high as wide.
        small = frame[:: 2 * step, ::step] if frame.shape[0] > 1 else frame[:, ::step]
        lines = ["".join(GREYS[value * (len(GREYS) - 1) // 255] for value in row) for row in small.tolist()]
    responses = [f"{value:g}" if counts else "-" for value, counts in zip(rows["robs"][0], rows["dfs"][0], strict=True)]
    more = f" and {len(responses) - MOST_NEURONS} more" if len(responses) > MOST_NEURONS else ""
    return "\n".join([*lines, f"responses: {' '.join(responses[:MOST_NEURONS])}{more}"])
