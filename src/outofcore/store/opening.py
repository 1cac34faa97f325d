"""Open data by its path or address: what is there decides what is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outofcore.errors import ParamsError, StoreError
from outofcore.store.connection import address_of, has_any, kind_of
from outofcore.store.reader import Store, open_store
from outofcore.store.seal import SEAL
from outofcore.store.token_files import SUFFIXES, open_tokens

_ZARR = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")  # of any Zarr, v3 or v2

# Arguments of what is read in place, and what they are where they are not given.
_OF_TOKENS = ("dtype", "end_of_document", "vocab_size", "rows", "splits")
_IN_PLACE = {"axis": 0, "strict": False, "packed": False, **dict.fromkeys(_OF_TOKENS)}


def _of_place(root: object, names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that are for this kind of data; raises ParamsError for others that are given."""
    for name, default in _IN_PLACE.items():
        if name not in names and given.get(name, default) != default:
            kind = {"axis": "a Zarr", "strict": "a Zarr", "packed": "a Zarr", "rows": "data", "splits": "data"}.get(
                name, "a file of tokens"
            )
            raise ParamsError(f"{name} is for {kind} that outofcore did not write, which {root} is not")
    return {name: given[name] for name in names if name in given}


def open_data(value: object, fields: Sequence[str] | None = None, **given: Any) -> Store:
    """Open what a path or an address names: a sealed store, a Zarr, or a file of token ids; an open store is itself.

    ``fields`` and ``given`` are arguments of :func:`outofcore.open_zarr` and :func:`outofcore.open_tokens`.

    Raises
    ------
    StoreError
        If there is nothing of these kinds, or it cannot be read.
    ParamsError
        If an argument is for another kind of data, or ``value`` is none.
    """
    stored = value if isinstance(value, Store) else None
    if isinstance(value, str | Path) and Path(value).suffix in SUFFIXES and Path(value).is_file():
        return open_tokens(value, **_of_place(value, _OF_TOKENS, given))
    if isinstance(value, str | Path):
        try:
            stored = open_store(value)
        except StoreError:
            if not _is_zarr(value):
                raise
    if stored is not None:
        _of_place(stored.root, (), given)
        return stored
    from outofcore.store.foreign import READABLE, open_zarr  # here, as sealed stores are read without zarr

    if not isinstance(value, READABLE):
        kind = type(value).__name__
        raise ParamsError(f"store: expected a store, or where it is, or a zarr Group, Array or Store, got a {kind}")
    return open_zarr(value, fields, **_of_place(value, ("axis", "rows", "splits", "strict", "packed"), given))


def _is_zarr(path: str | Path) -> bool:
    """Whether there is a Zarr without a seal; assumed where nothing is listed."""
    if address := address_of(path):
        return not has_any(address, (SEAL,)) and (not kind_of(address).lists or has_any(address, _ZARR))
    return not Path(path, SEAL).exists() and any(Path(path, name).exists() for name in _ZARR)
