"""Transforms of stimulus frames: one named list, applied once at conversion or at every read.

Both sides run the same list: :func:`apply` takes numpy arrays (conversion) and torch tensors (read, on whatever device
they lie) and gives the same values. Pixels of an integer type stay of that type under ``crop`` and ``downsample``.
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
    """Average square blocks of pixels; rows and columns that fill no block are cut off."""

    name: Literal["downsample"]
    factor: int = Field(ge=2, le=256, description="side of a block in pixels; integer pixels are rounded half up")


class Normalise(Section):
    """Subtract and divide, in float32: (x - mean) / std."""

    name: Literal["normalise"]
    mean: float = Field(description="in units of a pixel value")
    std: float = Field(gt=0, description="in units of a pixel value")


class Difference(Section):
    """Each frame less the frame of the bin before, in float32; the first bin of a trial has none and is lost."""

    name: Literal["difference"]


Transform = Annotated[Crop | Downsample | Normalise | Difference, Field(discriminator="name")]
Transforms = tuple[Transform, ...]

SIGNED = ("normalise", "difference")
"""Transforms whose values are signed fractions, which no unsigned type can hold."""


def history(transforms: Sequence[Transform]) -> int:
    """How many bins before a bin its value depends on."""
    return sum(each.name == "difference" for each in transforms)


def transformed_shape(shape: tuple[int, ...], transforms: Sequence[Transform]) -> tuple[int, ...]:
    """Shape of a frame after the transforms.

    Raises
    ------
    ValueError
        If a transform does not fit the frame.
    """
    for each in transforms:
        if each.name in ("crop", "downsample") and len(shape) < 2:
            message = f"{each.name} needs frames of (height, width), got shape {shape}"
            raise ValueError(message)
        if isinstance(each, Crop):
            if each.top + each.height > shape[-2] or each.left + each.width > shape[-1]:
                message = (
                    f"crop of rows {each.top}..{each.top + each.height} and columns {each.left}.."
                    f"{each.left + each.width} does not lie inside a frame of {shape[-2]} x {shape[-1]}"
                )
                raise ValueError(message)
            shape = (*shape[:-2], each.height, each.width)
        elif isinstance(each, Downsample):
            if min(shape[-2:]) < each.factor:
                message = f"downsample by {each.factor} leaves nothing of a frame of {shape[-2]} x {shape[-1]}"
                raise ValueError(message)
            shape = (*shape[:-2], shape[-2] // each.factor, shape[-1] // each.factor)
    return shape


def apply(frames: Frames, transforms: Sequence[Transform], *, time: int = 0) -> Frames:
    """Transform frames.

    Parameters
    ----------
    frames
        Shape (..., bins, ...) with height and width last; numpy array or torch tensor.
    transforms
        What is done, in this order.
    time
        Axis of the bins. Each ``difference`` makes it one shorter, at its beginning.
    """
    for each in transforms:
        if isinstance(each, Crop):
            frames = frames[..., each.top : each.top + each.height, each.left : each.left + each.width]
        elif isinstance(each, Downsample):
            frames = _downsample(frames, each.factor)
        elif isinstance(each, Normalise):
            # Doubles would be wider than any store; the same two float32 operations run on both sides.
            frames = (_float32(frames) - np.float32(each.mean).item()) / np.float32(each.std).item()
        else:
            wide = _float32(frames)
            count = wide.shape[time]
            before, after = [slice(None)] * wide.ndim, [slice(None)] * wide.ndim
            before[time], after[time] = slice(0, count - 1), slice(1, count)
            frames = wide[tuple(after)] - wide[tuple(before)]
    return frames


def _downsample(frames: Any, factor: int) -> Any:
    height, width = frames.shape[-2] // factor, frames.shape[-1] // factor
    cut = frames[..., : height * factor, : width * factor]
    blocks = cut.reshape(*cut.shape[:-2], height, factor, width, factor)
    if isinstance(blocks, np.ndarray):
        if blocks.dtype.kind == "f":
            total = blocks.astype(np.float32, copy=False).sum((-3, -1), dtype=np.float64)
            return (total / factor**2).astype(np.float32)
        total = blocks.sum((-3, -1), dtype=np.int64)
        return ((2 * total + factor**2) // (2 * factor**2)).astype(blocks.dtype)
    import torch

    if blocks.is_floating_point():
        return (blocks.sum((-3, -1), dtype=torch.float64) / factor**2).float()
    total = blocks.sum((-3, -1), dtype=torch.int64)
    return torch.div(2 * total + factor**2, 2 * factor**2, rounding_mode="floor").to(blocks.dtype)


def _float32(frames: Any) -> Any:
    return frames.astype(np.float32, copy=False) if isinstance(frames, np.ndarray) else cast("Any", frames).float()
