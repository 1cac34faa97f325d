"""What rows belong to: groups and sequences, as a user passes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.conversion.user_arrays import TEXT, Form, refuse
from outofcore.store.schema import Field

Values = npt.NDArray[Any]
LabelSource = str | Values | None
"""Name of a field, one value per row, or nothing."""


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
