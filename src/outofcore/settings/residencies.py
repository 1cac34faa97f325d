"""The residencies: where a loader keeps decoded rows. A new one is a row of this table and its class.

Only names are here, so that settings are read without the loader's libraries.
"""

from __future__ import annotations

from typing import Literal

ResidencyName = Literal["auto", "ram", "mapped", "hybrid", "streamed"]

RESIDENCIES = {
    "ram": "outofcore.loading.chunk_cache:ChunkCache",
    "mapped": "outofcore.loading.mapped:Mapped",
    "hybrid": "outofcore.loading.chunk_cache:ChunkCache",
    "streamed": "outofcore.loading.chunk_cache:ChunkCache",
}
"""The class of each, a :class:`outofcore.loading.residency.Residency`, in the order in which ``"auto"`` tries them."""
