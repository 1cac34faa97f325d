"""Versions of everything that determines a store's bytes: with equal versions, equal input gives equal bytes."""

from __future__ import annotations

from importlib import metadata

from outofcore.compilation import source_digest
from outofcore.domains.registry import GROUP

PACKAGES = (
    "chess",
    "gigatoken",
    "h5py",
    "numba",
    "numcodecs",
    "numpy",
    "pyarrow",
    "pynwb",
    "rust-pgn-reader-python-binding",
    "sgfmill",
    "tokenizers",
    "zarr",
    "zstandard",
)


def versions() -> dict[str, str]:
    """The package with a digest of its sources, its engines and oracles, and packages that add domains."""
    own = f"{metadata.version('outofcore')}+{source_digest()[:12]}"
    domains = {each.dist.name: each.dist.version for each in metadata.entry_points(group=GROUP) if each.dist}
    return {"outofcore": own, **{name: metadata.version(name) for name in PACKAGES}, **domains}
