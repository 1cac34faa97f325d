"""Stored types of stimulus and responses, and transforms of the stimulus, applied at conversion or at every read.

:func:`apply` takes numpy arrays (conversion) and torch tensors (read, on any device) and gives the same values. Integer
pixels keep their type under ``crop`` and ``downsample``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field

from outofcore.domains.domain import Section

if TYPE_CHECKING:
    from torch import Tensor

    Frames = TypeVar("Frames", npt.NDArray[Any], Tensor)


class Crop(Section):
    """Keep a rectangle of each frame."""

    name: Literal["crop"]
    top: int = Field(ge=0, description="first row of pixels kept")
    left: int = Field(ge=0, description="first column of pixels kept")
    height: int = Field(ge=1, description="rows of pixels kept")
    width: int = Field(ge=1, description="columns of pixels kept")


class Downsample(Section):
    """Average square blocks of pixels; incomplete blocks at the edges are dropped."""

    name: Literal["downsample"]
    factor: int = Field(ge=2, le=256, description="side of a block in pixels; integer pixels are rounded half up")


class Normalise(Section):
    """Subtract and divide, in float32: (x - mean) / std."""

    name: Literal["normalise"]
    mean: float = Field(description="in units of a pixel value")
    std: float = Field(gt=0, description="in units of a pixel value")


class Difference(Section):
    """Frame minus the previous one, in float32; the first bin of a trial has none and is dropped."""

    name: Literal["difference"]


Transform = Annotated[Crop | Downsample | Normalise | Difference, Field(discriminator="name")]
Transforms = tuple[Transform, ...]

StimulusType = Literal["uint8", "bfloat16", "float32"]
ResponseType = Literal["uint8", "uint16", "float32"]

LARGEST_IN_INT16 = 8
"""Factor up to which blocks of 8-bit pixels, doubled for rounding, are summed in 16 bits."""

SIGNED = ("normalise", "difference")
"""Transforms whose values are signed fractions, which no unsigned type can hold."""


def bins_before(transforms: Sequence[Transform]) -> int:
    """Number of preceding bins that the value of a bin depends on."""
    return sum(step.name == "difference" for step in transforms)


def transformed_shape(shape: tuple[int, ...], transforms: Sequence[Transform]) -> tuple[int, ...]:
    """Shape of a frame after the transforms; raises ValueError if one does not fit."""
    for step in transforms:
        if step.name in ("crop", "downsample") and len(shape) < 2:
            raise ValueError(f"{step.name} needs frames of (height, width), got shape {shape}")
        if isinstance(step, Crop):
            if step.top + step.height > shape[-2] or step.left + step.width > shape[-1]:
                raise ValueError(
                    f"crop of rows {step.top}..{step.top + step.height} and columns {step.left}.."
                    f"{step.left + step.width} does not lie inside a frame of {shape[-2]} x {shape[-1]}"
                )
            shape = (*shape[:-2], step.height, step.width)
        elif isinstance(step, Downsample):
            if min(shape[-2:]) < step.factor:
                raise ValueError(f"downsample by {step.factor} leaves nothing of a frame of {shape[-2]} x {shape[-1]}")
            shape = (*shape[:-2], shape[-2] // step.factor, shape[-1] // step.factor)
    return shape


def apply(frames: Frames, transforms: Sequence[Transform], *, time: int = 0) -> Frames:
    """Transform frames, height and width last; each ``difference`` drops one bin of axis ``time`` at its start."""
    for step in transforms:
        if isinstance(step, Crop):
            frames = frames[..., step.top : step.top + step.height, step.left : step.left + step.width]
        elif isinstance(step, Downsample):
            frames = _downsample(frames, step.factor)
        elif isinstance(step, Normalise):
            # float64 would be wider than any store; both sides run the same two float32 operations.
            frames = (_float32(frames) - np.float32(step.mean).item()) / np.float32(step.std).item()
        else:
            wide = _float32(frames)
            before: tuple[slice, ...] = (slice(None),) * time
            frames = wide[(*before, slice(1, None))] - wide[(*before, slice(None, -1))]
    return frames


def _downsample(frames: Any, factor: int) -> Any:
    height, width = frames.shape[-2] // factor * factor, frames.shape[-1] // factor * factor
    floating = frames.dtype.kind == "f" if isinstance(frames, np.ndarray) else frames.is_floating_point()
    narrow = frames.dtype.itemsize == 1
    exact = "float64" if floating else "int16" if narrow and factor <= LARGEST_IN_INT16 else "int64"
    if exact == "float64" and not isinstance(frames, np.ndarray) and frames.device.type == "mps":  # has no float64
        return _downsample(frames.cpu(), factor).to(frames.device)
    # Rows are contiguous, so they are added first; numpy and torch add in the same order.
    total = _as(frames[..., 0:height:factor, :width], exact)
    for row in range(1, factor):
        total += frames[..., row:height:factor, :width]
    total = sum((total[..., column::factor] for column in range(1, factor)), total[..., ::factor])
    if floating:
        return _as(total / factor**2, "float32")
    return _as((2 * total + factor**2) // (2 * factor**2), frames.dtype)


def _as(values: Any, dtype: Any) -> Any:
    """A copy of a numpy array or torch tensor in a type given by object or shared name."""
    if isinstance(values, np.ndarray):
        return values.astype(dtype)
    import torch

    return values.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype, copy=True)


def _float32(frames: Any) -> Any:
    return frames.astype(np.float32, copy=False) if isinstance(frames, np.ndarray) else cast("Any", frames).float()


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
