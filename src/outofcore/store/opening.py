"""Open data by its path or address: what is there decides what is opened.

For files and folders of formats that are not read in place, the error has the line that makes a store of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.errors import DamagedStore, ParamsError, StoreError
from outofcore.store.connection import address_of, has_any, kind_of
from outofcore.store.joined import JoinedStore, check_stores
from outofcore.store.local import ZARR_FILES
from outofcore.store.reader import Store, open_store
from outofcore.store.seal import SEAL
from outofcore.store.token_files import SUFFIXES, open_tokens

_MOST_FIELDS = 8  # of a line
_ARRAYS = {  # how arrays by name are opened
    **dict.fromkeys((".h5", ".hdf5", ".hdf", ".h5ad", ".mat", ".nc"), "h5py.File({name!r})"),
    ".npz": "np.load({name!r})",
}
_TABLES = {  # what write_store takes
    ".npy": "{{{stem!r}: np.load({name!r}, mmap_mode='r')}}",
    ".pt": "{{{stem!r}: torch.load({name!r}).numpy()}}",
    ".csv": "pandas.read_csv({name!r})",
    ".tsv": "pandas.read_csv({name!r}, sep='\\t')",
    ".parquet": "pyarrow.parquet.ParquetFile({name!r}).iter_batches()",
}


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
            if advice := _advice_on(value):
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


def _advice_on(place: str | Path) -> str:
    """What to do with data that is no store, Zarr or file of tokens; "" for what is not known, or at an address."""
    path = Path(place)
    if not path.exists():
        return ""
    if path.is_dir():
        return _advice_on_folder(path)
    stem, name, suffix = path.stem, str(path), path.suffix.lower()
    write = f"outofcore.write_store({f'{stem}.zarr'!r}, "
    if suffix in _ARRAYS and (shapes := _same_rows(path)):
        fields = ", ".join(f"{field.replace('/', '_')!r}: f[{field!r}]" for field in shapes)
        said = ", ".join(f"{field} {shape}" for field, shape in shapes.items())
        return f"is not read in place: f = {_ARRAYS[suffix].format(name=name)}; {write}{{{fields}}})  # {said}"
    if suffix in _TABLES:
        return f"is not read in place: {write}{_TABLES[suffix].format(stem=stem, name=name)})"
    if suffix == ".nc":
        return f"is not read in place: xarray.open_dataset({name!r}).to_zarr({f'{stem}.zarr'!r})"
    if suffix == ".zip":
        return f"if there is a Zarr in it: outofcore.loader(zarr.storage.ZipStore({name!r}))"
    return ""


def _same_rows(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of numbers that have as many rows as most in the file; none if it cannot be opened."""
    shapes: dict[str, tuple[int, ...]] = {}

    def collect(name: str, array: Any) -> None:
        if getattr(array, "shape", ()) and array.dtype.kind in "biuf":
            shapes[name] = array.shape

    with suppress(Exception):  # of any version of the format
        if path.suffix.lower() == ".npz":
            with np.load(path) as arrays:
                for name in arrays.files:
                    collect(name, arrays[name])
        else:
            import h5py

            with h5py.File(path) as file:
                file.visititems(collect)
    rows = Counter(shape[0] for shape in shapes.values()).most_common(1)
    alike = [(name, shape) for name, shape in shapes.items() if shape[0] == rows[0][0]]
    return dict(alike[:_MOST_FIELDS])


def _advice_on_folder(folder: Path) -> str:
    """The format of a folder that no version of zarr-python reads."""
    if (folder / "attributes.json").exists():
        return "is N5, which is not read: copy it to a Zarr, for example with tensorstore"
    with suppress(OSError, ValueError):
        facts = json.loads((folder / "zarr.json").read_bytes())
        draft = facts.get("zarr_format") if isinstance(facts, Mapping) else None
        if isinstance(draft, str):
            return f"is of a draft of Zarr v3 ({draft}), which is not read: copy it with the program that wrote it"
    return ""
