"""Packed values by the conventions of CF, as netCDF and xarray store them: what an array's numbers mean.

A packed integer stands for ``number * scale_factor + add_offset``; ``_FillValue`` and ``missing_value`` stand for no
value, which is NaN. xarray keeps ``_FillValue`` as an attribute in Zarr v3, and as the array's own fill value in v2.
"""

from __future__ import annotations

import base64
import binascii
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

_SLAB = 1 << 16  # numbers that are unpacked at a time, in float64


@dataclass(frozen=True)
class Packing:
    """How the numbers of an array are unpacked."""

    scale: float
    offset: float
    missing: tuple[Any, ...]  # numbers that stand for no value, as stored
    stored: np.dtype[Any]  # in which they are read: of the other sign where _Unsigned says so
    dtype: np.dtype[Any]  # unpacked: float32 for packed numbers of one or two bytes and for float32, else float64

    def unpack(self, packed: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Unpack numbers into ``out``, of the same shape."""
        rows = max(1, _SLAB // max(1, packed[:1].size))
        for start in range(0, len(packed), rows):
            some = np.ascontiguousarray(packed[start : start + rows], packed.dtype.newbyteorder("=")).view(self.stored)
            if self.dtype == self.stored and not self.missing and (self.scale, self.offset) == (1, 0):
                out[start : start + rows] = some
                continue
            values = some.astype(np.float64)
            if (self.scale, self.offset) != (1, 0):
                values *= self.scale
                values += self.offset
            for number in self.missing:
                values[some == number] = np.nan
            out[start : start + rows] = values


def packing_of(array: zarr.Array[Any]) -> Packing | None:
    """How an array is packed; None if its numbers are its values."""
    attributes = dict(array.attrs)
    dtype = array.dtype.newbyteorder("=")
    stored = dtype
    if dtype.kind in "iu" and "_Unsigned" in attributes:
        unsigned = str(attributes["_Unsigned"]).lower() == "true"
        stored = np.dtype(f"{'u' if unsigned else 'i'}{dtype.itemsize}")
    given = [attributes.get(name) for name in ("_FillValue", "missing_value")]
    fills = [fill for value in given for fill in (value if isinstance(value, list) else [value])]
    if array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in attributes:
        fills.append(array.fill_value)
    numbers = {number for fill in fills if (number := _number(fill, dtype, stored)) is not None}
    missing = tuple(sorted(number for number in numbers if not np.isnan(number)))  # NaN stands for itself
    scale = _float(attributes.get("scale_factor"), 1.0)
    offset = _float(attributes.get("add_offset"), 0.0)
    if dtype.kind not in "iuf":
        return None
    if (scale, offset) == (1, 0) and not missing:
        return None if stored == dtype else Packing(scale, offset, missing, stored, stored)
    narrow = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return Packing(scale, offset, missing, stored, np.dtype(np.float32 if narrow else np.float64))


def _number(fill: Any, dtype: np.dtype[Any], stored: np.dtype[Any]) -> Any:
    """A fill value as a number of the array; None if there is none that its dtype can hold."""
    try:
        if isinstance(fill, str):
            fill = _of_text(fill, dtype)
        whole = np.asarray(fill, np.float64 if dtype.kind == "f" else None)
        with np.errstate(invalid="ignore", over="ignore"):
            narrow = whole.astype(dtype)
        if fill is None or whole.shape or (dtype.kind in "iu" and narrow != whole):
            return None
        return narrow.view(stored)[()]
    except (TypeError, ValueError, OverflowError, binascii.Error, struct.error):
        return None


def _of_text(fill: str, dtype: np.dtype[Any]) -> float:
    """A fill value in words, or the eight bytes of a float64 that xarray writes."""
    with suppress(ValueError):
        return int(fill) if dtype.kind in "iu" else float(fill)
    return float(struct.unpack("<d", base64.b64decode(fill, validate=True))[0])


def _float(value: Any, default: float) -> float:
    try:
        return default if value is None else float(np.asarray(value).reshape(()))
    except (TypeError, ValueError):
        return default
