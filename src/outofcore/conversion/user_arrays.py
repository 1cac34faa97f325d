"""Arrays as a user passes them: checked, described as fields, and read in slices; and what their rows belong to."""

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

Values = npt.NDArray[Any]
LabelSource = str | Values | None
"""Name of a field, one value per row, or nothing."""

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


class Labels:
    """Reads the groups and sequences of rows, each an array or the name of a field, in the order of the rows."""

    def __init__(self, groups: Any, sequences: Any, lengths: Any, form: Form) -> None:
        if sequences is not None and lengths is not None:
            refuse("lengths", "sequences or lengths", "both")
        self.begun = 0  # sequences, as far as rows belong to any
        self.text_bytes = 0  # of their groups
        self._groups = _source("groups", groups, form)
        self._numbers = _source("sequences", sequences, form)
        self._ends = None  # of sequences, by their lengths
        if lengths is not None:
            sizes = np.asarray(lengths)
            if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or not len(sizes) or sizes.min() < 1:
                refuse("lengths", "whole numbers from 1", f"{sizes.dtype} of shape {sizes.shape}")
            self._ends = np.cumsum(sizes, dtype=np.int64)
        self._row = 0
        self._last_group: Values | None = None
        self._last_number: Values | None = None

    @property
    def stated(self) -> bool:
        """Whether rows belong to sequences that the user stated."""
        return any(label is not None for label in (self._groups, self._numbers, self._ends))

    def columns(self, form: Form) -> tuple[Field, ...]:
        if self._groups is None:
            return ()
        named = isinstance(self._groups, str)
        text = form[self._groups][0] == "string" if isinstance(self._groups, str) else self._groups.dtype.kind in TEXT
        doc = f"group of all its rows{f', from the field {self._groups}' if named else ''}"
        return (Field(name="group", dtype="string" if text else "int64", fill="" if text else 0, doc=doc),)

    def of(
        self, arrays: Mapping[str, Any], start: int, stop: int
    ) -> tuple[npt.NDArray[np.bool_] | None, Values | None]:
        """Whether the next rows begin a sequence, and their groups; None where they have none."""
        count = stop - start
        groups = self._values("groups", self._groups, arrays, start, stop)
        numbers = self._values("sequences", self._numbers, arrays, start, stop)
        if self._ends is not None:
            numbers = np.searchsorted(self._ends, np.arange(self._row, self._row + count), "right")
        starts = None
        if numbers is not None:
            before = numbers[:1] if self._last_number is None else self._last_number
            falls = np.flatnonzero(np.diff(np.append(before, numbers)) < 0)
            if len(falls):
                refuse("sequences", "numbers that never decrease", f"a smaller one in row {self._row + falls[0]:,}")
            starts = _changes(self._last_number, numbers)
            self._last_number = numbers[-1:]
        if groups is not None:
            changes = _changes(self._last_group, groups)
            self._last_group = groups[-1:]
            starts = changes if starts is None else starts
            wrong = np.flatnonzero(changes & ~starts)
            if len(wrong):
                refuse("groups", "one group in each sequence", f"another in row {self._row + wrong[0]:,}")
            if groups.dtype == object:
                self.text_bytes += sum(len(text.encode()) + 4 for text in groups[starts])
        if starts is not None:
            self.begun += int(starts.sum())
        self._row += count
        return starts, groups

    def finish(self) -> None:
        """Compare with the number of all rows."""
        for name, source in (("groups", self._groups), ("sequences", self._numbers)):
            if source is not None and not isinstance(source, str) and len(source) != self._row:
                refuse(name, f"one value per row ({self._row:,})", f"{len(source):,}")
        if self._ends is not None and self._ends[-1] != self._row:
            refuse("lengths", f"a sum of {self._row:,}, the number of rows", f"{self._ends[-1]:,}")

    def _values(
        self, name: str, source: LabelSource, arrays: Mapping[str, Any], start: int, stop: int
    ) -> Values | None:
        if source is None:
            return None
        if isinstance(source, str):
            return _plain(name, np.asarray(arrays[source][start:stop]))
        values = source[self._row : self._row + stop - start]
        if len(values) != stop - start:
            refuse(name, f"one value per row (at least {self._row + stop - start:,})", f"{len(source):,}")
        return _plain(name, values)


def _source(name: str, value: Any, form: Form) -> LabelSource:
    if value is None:
        return None
    if isinstance(value, str):
        if value not in form or form[value][1]:
            fields = ", ".join(field for field, (_, shape) in form.items() if not shape)
            refuse(name, f"an array, or a field of one value per row ({fields or 'there is none'})", repr(value))
        return value
    array = np.asarray(value)
    if array.ndim != 1:
        refuse(name, "one value per row", f"shape {array.shape}")
    _plain(name, array[:0])
    return array


def _plain(name: str, values: Values) -> Values:
    """Whole numbers as int64, texts as objects."""
    kind = values.dtype.kind
    if kind in ("biu" if name == "groups" else "iu"):
        if kind == "u" and len(values) and values.max() > np.iinfo(np.int64).max:
            refuse(name, "whole numbers below 2**63", values.max())
        return values.astype(np.int64)
    if name != "groups" or kind not in TEXT:
        refuse(name, "whole numbers or text" if name == "groups" else "whole numbers", values.dtype)
    texts = values.astype(object)
    for text in texts:
        if not isinstance(text, str):
            refuse(name, "whole numbers or text", type(text).__name__)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                refuse(name, "text that UTF-8 can encode", ascii(text), error)
    return texts


def _changes(last: Values | None, values: Values) -> npt.NDArray[np.bool_]:
    """Whether each value differs from the one before it."""
    first = np.ones(1, np.bool_) if last is None else values[:1] != last
    return np.concatenate([first, values[1:] != values[:-1]]).astype(np.bool_)
