"""Open data by its path or address: what is there decides what is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from outofcore.errors import DamagedStore, ParamsError, StoreError
from outofcore.store.connection import address_of, has_any, kind_of
from outofcore.store.joined import JoinedStore, check_stores
from outofcore.store.local import ZARR_FILES
from outofcore.store.other_formats import advice_on
from outofcore.store.reader import Store, open_store
from outofcore.store.seal import SEAL
from outofcore.store.token_files import SUFFIXES, open_tokens


def open_data(value: object, fields: Sequence[str] | None = None) -> Store:
    """Open what a path or an address names: a sealed store, a folder of them, a Zarr, or a file of token ids.

    An open store is itself; a folder of stores is what :class:`JoinedStore` makes of them.

    ``fields`` are those of a Zarr, as :func:`outofcore.open_zarr` takes them.

    Raises
    ------
    StoreError
        If there is nothing of these kinds, or it cannot be read.
    ParamsError
        If ``value`` names no data.
    """
    stored = value if isinstance(value, Store) else None
    if isinstance(value, str | Path):
        tokens = Path(value).suffix in SUFFIXES and Path(value).is_file()
        try:
            if tokens:
                return open_tokens(value)
            stored = open_stores(value)
        except DamagedStore:
            raise
        except StoreError as error:
            if advice := advice_on(value):
                raise StoreError(f"{error if tokens else value}: {advice}") from error
            if tokens or not _is_zarr(value):
                raise
    if stored is not None:
        return stored
    from outofcore.store.foreign import READABLE, open_zarr  # here, as sealed stores are read without zarr

    if not isinstance(value, READABLE):
        kind = type(value).__name__
        raise ParamsError(f"data: expected a store, or where it is, or a zarr Group, Array or Store, got a {kind}")
    return open_zarr(value, fields)


def open_stores(path: str | Path) -> Store:
    """Open a sealed store, or a folder of them as one; raises StoreError for anything else."""
    paths = stores_in(path)
    if not paths:
        return open_store(path)
    stores = [open_store(one) for one in paths]
    check_stores(stores, apart=True)
    return JoinedStore(Path(path), stores)


def stores_in(path: str | Path) -> list[Path]:
    """The stores in a folder of stores, in order of their names without ``.zarr``; none if it is something else."""
    if address_of(path) or any(Path(path, name).exists() for name in (SEAL, *ZARR_FILES)):
        return []
    return sorted((seal.parent for seal in Path(path).glob(f"*.zarr/{SEAL}")), key=lambda store: store.stem)


def _is_zarr(path: str | Path) -> bool:
    """Whether there is a Zarr without a seal; assumed where nothing is listed."""
    if address := address_of(path):
        return not has_any(address, (SEAL,)) and (not kind_of(address).lists or has_any(address, ZARR_FILES))
    return not Path(path, SEAL).exists() and any(Path(path, name).exists() for name in ZARR_FILES)
