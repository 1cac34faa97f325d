"""Stored types of stimulus and responses, their ranges, and bfloat16 as its upper 16 bits."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

StimulusType = Literal["uint8", "bfloat16", "float32"]
ResponseType = Literal["uint8", "uint16", "float32"]


def stored_as(name: str) -> np.dtype[Any]:
    """The numpy type in the store; ``bfloat16`` is kept as uint16."""
    return np.dtype(np.uint16 if name == "bfloat16" else name)


def encode(values: npt.NDArray[Any], name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Values in the stored type, 0 where they do not fit; and where they fit, or None if all do.

    ``uint8`` and ``uint16`` accept only whole numbers in range: nothing is rounded or wrapped. Floating types round to
    nearest, ties to even, and accept what stays finite.
    """
    target = stored_as(name)
    if values.dtype == target and name in ("uint8", "uint16"):
        return values, None
    if name in ("uint8", "uint16"):
        with np.errstate(invalid="ignore"):
            fits = (values >= 0) & (values <= np.iinfo(target).max) & (values == np.floor(values))
        return (values.astype(target), None) if fits.all() else (np.where(fits, values, 0).astype(target), fits)
    with np.errstate(over="ignore", invalid="ignore"):
        plain = values.astype(np.float32, copy=False)
    stored: npt.NDArray[Any] = bfloat16_bits(plain) if name == "bfloat16" else plain
    fits = (stored & 0x7F80) != 0x7F80 if name == "bfloat16" else np.isfinite(plain)
    return (stored, None) if fits.all() else (np.where(fits, stored, stored.dtype.type(0)), fits)


def bfloat16_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Upper half of float32, rounded to nearest with ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def bfloat16_values(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Inverse of :func:`bfloat16_bits`, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
