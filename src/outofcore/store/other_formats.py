"""Files and folders of formats that are not read in place: what each is, and the line that makes a store of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

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


def advice_on(place: str | Path) -> str:
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
