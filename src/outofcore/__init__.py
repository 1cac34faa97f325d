"""Train on data larger than memory.

Raw PGN, SGF, text and neural recordings become sealed Zarr stores; training reads them lazily within a stated budget:

    from outofcore import loader, open_store, reading

    store = open_store("data/stores/chess.zarr")
    for batch in loader(store, "train", 1024, shuffle=True, seed=0, memory="256MiB", tensors=reading(store)):
        ...
"""

from __future__ import annotations

from outofcore.errors import OutOfCoreError
from outofcore.store.reader import open_store

__all__ = ["OutOfCoreError", "ZarrDataset", "loader", "open_store", "reading"]


def __getattr__(name: str) -> object:
    """Import the loader with torch when it is asked for: conversion and the command line do not need it."""
    if name == "loader":
        from outofcore.loading.loader import loader

        return loader
    if name == "reading":
        from outofcore.tensors import reading

        return reading
    if name == "ZarrDataset":
        from outofcore.loading.dataset import ZarrDataset

        return ZarrDataset
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
