"""Versions of everything that determines a store's bytes: with equal versions, equal input gives equal bytes."""

from __future__ import annotations

from importlib import metadata

from outofcore.compilation import source_digest

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
    """The package with a digest of its sources, and its engines and oracles."""
    own = f"{metadata.version('outofcore')}+{source_digest()[:12]}"
    return {"outofcore": own, **{name: metadata.version(name) for name in PACKAGES}}
