"""Arrays as a user passes them: checked, described as fields, and read in slices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from outofcore.errors import ParamsError
from outofcore.store.metadata import DTYPES
from outofcore.store.schema import Field
from outofcore.system.extras import load

TEXT = "UOT"  # kinds of dtypes
ROWS_TOGETHER = 1 << 16
_NAME = re.compile(r"(?!__)[A-Za-z0-9_][A-Za-z0-9_-]*")

FieldArrays = Mapping[str, Any]
"""Arrays that share their first axis, by field: of numpy, h5py, zarr, or anything with a shape that can be sliced."""

Form = dict[str, tuple[str, tuple[int, ...]]]
"""Dtype and shape of a row of each field."""


def refuse(name: str, expected: str, value: object, cause: BaseException | None = None) -> NoReturn:
    """Raise the error of a wrong argument or field."""
    shown = " ".join(str(value).split())
    raise ParamsError(
        f"{name}: expected {expected}, got {shown if len(shown) <= 80 else f'{shown[:77]}...'}"
    ) from cause


def segment(argument: str, name: object, reserved: Iterable[str] = ()) -> str:
    """A name that is a folder of a store."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in reserved:
        refuse(argument, "a name of letters, digits, '_' and '-' that is not used by the store", repr(name))
    return name


def by_name(data: Any) -> Any:
    """The columns of a table of pandas or Arrow, or the arrays of a Zarr group, by name; other data as they are."""
    if isinstance(data, Mapping):
        return data
    if hasattr(data, "column_names") and hasattr(data, "columns"):  # Arrow
        return dict(zip(data.column_names, data.columns, strict=True))
    if hasattr(data, "arrays"):  # Zarr
        return dict(data.arrays())
    if hasattr(data, "columns") and hasattr(data, "items"):  # pandas
        return dict(data.items())
    return data


def iterated(data: Any) -> Iterator[Any]:
    """The pieces of the data; a table in Arrow's C stream (polars, DuckDB) or of ``datasets`` comes in batches."""
    if isinstance(data, Mapping):
        return iter([data])
    if hasattr(data, "__arrow_c_stream__"):
        return iter(_arrow(data).RecordBatchReader.from_stream(data))
    if hasattr(data, "with_format") and hasattr(data, "iter"):  # datasets
        return iter(data.with_format("arrow").iter(ROWS_TOGETHER))
    try:
        return iter(data)
    except TypeError as error:
        refuse("data", "a mapping of arrays by field, or an iterator of such mappings", type(data).__name__, error)


def opened(piece: object, known: Form | None, text: str | None) -> tuple[dict[str, Any], int]:
    """The arrays of a piece and their number of rows; ``known`` is the form of the pieces before."""
    piece = by_name(piece)
    if hasattr(piece, "__arrow_c_stream__"):
        piece = by_name(_arrow(piece).table(piece))
    if not isinstance(piece, Mapping):
        refuse("data", "a mapping of arrays by field, or an iterator of such mappings", type(piece).__name__)
    arrays = {segment("data", name, ("sequences",)): _array(name, value) for name, value in piece.items()}
    if not arrays:
        refuse("data", "at least one field", "none")
    if known is not None and arrays.keys() != known.keys():
        refuse("data", f"the fields {', '.join(known)} in every piece", ", ".join(arrays))
    first = next(iter(arrays))
    rows = int(arrays[first].shape[0])
    for name, array in arrays.items():
        dtype = np.dtype(array.dtype)
        if dtype.name not in DTYPES and not (name == text and dtype.kind in TEXT):
            refuse(name, "bool, integers, or floats of 16 to 64 bits", dtype.name)
        if not all(array.shape[1:]):
            refuse(name, "at least one value per row", f"shape {array.shape}")
        if array.shape[0] != rows:
            refuse(name, f"{rows:,} rows, as in {first}", f"{array.shape[0]:,}")
    if known is not None:
        for name, form in form_of(arrays).items():
            if form != known[name]:
                refuse(name, f"{known[name][0]} of shape {known[name][1]} in every piece", f"{form[0]} of {form[1]}")
    return arrays, rows


def form_of(arrays: Mapping[str, Any]) -> Form:
    """The form of a piece; text of any length is ``string``."""
    dtypes = {name: np.dtype(array.dtype) for name, array in arrays.items()}
    return {
        name: ("string" if dtype.kind in TEXT else dtype.name, tuple(arrays[name].shape[1:]))
        for name, dtype in dtypes.items()
    }


def fields_of(form: Form) -> tuple[Field, ...]:
    """The fields to store, in the order of their names: the same for any order of the mapping."""
    return tuple(
        Field(name=name, dtype=dtype, shape=shape, doc=f"array {name}")
        for name, (dtype, shape) in sorted(form.items())
        if dtype != "string"
    )


def read(array: Any, field: Field, start: int, stop: int) -> npt.NDArray[Any]:
    """A copy of some rows of a field: what a user does with the array afterwards changes nothing."""
    rows = np.array(array[start:stop], dtype=field.dtype, order="C")
    if rows.shape != (stop - start, *field.shape):
        refuse(field.name, f"{stop - start:,} rows of shape {field.shape}", f"shape {rows.shape} from a slice")
    return rows


def steps(rows: int, row_bytes: int, step_bytes: int) -> Iterator[tuple[int, int]]:
    """First row and end of slices of about so many bytes."""
    step = max(1, step_bytes // row_bytes)
    return ((start, min(start + step, rows)) for start in range(0, rows, step))


def _arrow(table: object) -> Any:
    return load("pyarrow", "text", f"a table of type {type(table).__name__}")


def _array(name: str, value: Any) -> Any:
    """Something with a dtype of numpy and a shape, sliced without being read whole where that is possible."""
    if isinstance(value, np.ma.MaskedArray):
        refuse(name, "an array without a mask", "a masked array")
    try:
        if hasattr(value, "to_numpy"):  # a column of a table, which slices by label
            value = np.asarray(value)
        lazy = hasattr(value, "__array__") and isinstance(getattr(value, "dtype", None), np.dtype)
        array = value if lazy and hasattr(value, "shape") else np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        refuse(name, "an array", type(value).__name__, error)
    if not array.shape:
        refuse(name, "an array whose first axis is the row", f"{type(value).__name__} without axes")
    return array
