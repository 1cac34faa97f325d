"""Which arrays of other software's Zarr are fields, what their numbers mean, and where samples follow each other.

The arrays that are read have the same samples: the same dimension, by name and size, along the axis of the samples. The
dimension is that of most arrays; one that is an inner dimension of another array, as ``lat`` is of ``(time, lat)``, is
none of samples. Of the levels of an OME-Zarr the finest is read. All other arrays are named as left out.

Packed values are by the conventions of CF, as netCDF and xarray store them: a packed integer stands for
``number * scale_factor + add_offset``; ``_FillValue`` and ``missing_value`` stand for no value, which is NaN. xarray
keeps ``_FillValue`` as an attribute in Zarr v3, and as the array's own fill value in v2.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import zarr

from outofcore.errors import ParamsError, StoreError
from outofcore.ndarrays import Ints
from outofcore.store.connection import one_line
from outofcore.store.metadata import DTYPES

_SLAB = 1 << 16  # values of a coordinate that are read at a time, in whole chunks, or unpacked, in float64
_MOST_NAMED = 8  # arrays in a message

Node = zarr.Group | zarr.Array[Any]
Dimension = tuple[str | None, int]
"""Name, if it has one, and size."""


class Chosen(NamedTuple):
    """The arrays that are read, by field."""

    arrays: Mapping[str, zarr.Array[Any]]
    axes: Mapping[str, int]  # of the samples
    coordinate: zarr.Array[Any] | None  # of that axis
    left_out: Sequence[str]  # names and dimensions of all other arrays

    @property
    def samples(self) -> int:
        name = next(iter(self.axes))
        return self.arrays[name].shape[self.axes[name]]


def choose(root: object, node: Node, fields: Sequence[str] | None, axis: int | str) -> Chosen:
    """The arrays that are read; raises StoreError if there are none, ParamsError if names have to decide."""
    left_out: list[str] = []
    if fields is not None:
        arrays = {name: _array(root, node, name) for name in fields}
    elif isinstance(node, zarr.Array):
        name = node.basename or "array"
        arrays = {name: _checked(root, name, node)}
    else:
        arrays, left_out = _numbers(root, node)
    axes = {name: number for name, array in arrays.items() if (number := _axis(array, axis)) is not None}
    if fields is None:
        axes, others = _same_samples(root, arrays, axes)
        left_out += [_described(name, arrays[name]) for name in arrays if name not in axes or name in others]
    elif missing := [name for name in fields if name not in axes]:
        raise ParamsError(
            f"{root}: {missing[0]} has no axis {axis!r}, its dimensions are "
            f"{[name for name, _ in _dimensions(arrays[missing[0]])]}"
        )
    if not axes:
        raise StoreError(f"{root}: no array of numbers with an axis {axis!r}; name the fields to read")
    current = _current if isinstance(node, zarr.Group) and node.metadata.consolidated_metadata else _same
    arrays = {name: current(arrays[name]) for name in axes}
    lengths = {name: arrays[name].shape[number] for name, number in axes.items()}
    if len(set(lengths.values())) > 1:
        raise ParamsError(f"{root}: expected fields of one number of samples along axis {axis!r}, got {lengths}")
    return Chosen(arrays, axes, _coordinate(node, arrays, axes, current), sorted(left_out))


def sequence_ends(coordinate: zarr.Array[Any]) -> tuple[Ints, str]:
    """The row after each sequence but the last, where a step is half off the usual one; and what to say of them.

    No row if the steps are irregular all over.
    """
    ends, step, last = [np.empty(0, np.int64)], 0.0, None
    slab = coordinate.chunks[0] * max(1, _SLAB // coordinate.chunks[0])
    for start in range(0, coordinate.shape[0], slab):
        values = np.asarray(coordinate[start : start + slab])
        values = (values.view("i8") if values.dtype.kind in "mM" else values).astype(np.float64)
        steps = np.diff(values) if last is None else np.diff(values, prepend=last)
        if last is None:
            step = float(np.median(steps)) if len(steps) else 0.0
        with np.errstate(all="ignore"):
            ratio = steps / step
        ends.append(np.flatnonzero(~((ratio > 1 / 2) & (ratio < 3 / 2))) + start + int(last is None))
        last = values[-1]
    gaps = np.concatenate(ends)
    name = coordinate.basename
    if 2 * len(gaps) > coordinate.shape[0]:
        return ends[0], f"{name} has no regular step, so windows do not end at its gaps"
    if not len(gaps):
        return gaps, ""
    first = int(gaps[0])
    low, high = np.asarray(coordinate[first - 1 : first + 1]).tolist()
    count = f"{len(gaps):,} gap{'' if len(gaps) == 1 else 's'} of {name}"
    return gaps, f"windows end at {count}, the first from {low} to {high} before row {first:,}"


def dated(array: zarr.Array[Any]) -> str:
    """The units of an array of dates, by the conventions of CF; "" for one of other numbers."""
    units = str(array.attrs.get("units", ""))
    return units if " since " in units else ""


def missing_chunks(array: zarr.Array[Any]) -> int:
    """Stored chunks that were never written; those of a shard are, or none."""
    stored = array.shards or array.chunks
    all_shards = math.prod(-(-size // chunk) for size, chunk in zip(array.shape, stored, strict=True))
    return all_shards * (math.prod(stored) // math.prod(array.chunks)) - array.nchunks_initialized


def named(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _array(root: object, node: Node, name: str) -> zarr.Array[Any]:
    if isinstance(node, zarr.Array):
        raise StoreError(f"{root}: it is an array, not a group; do not name fields")
    try:
        member = node[name]
    except KeyError:
        known = ", ".join(sorted(name for name, _ in node.members()))
        raise StoreError(f"{root}: no array {name!r}; there are {known[:300]}") from None
    if isinstance(member, zarr.Group):
        kind = str(member.attrs.get("encoding-type", "a group"))
        advice = "write it dense, or read it with annbatch" if kind.endswith("_matrix") else "name an array in it"
        if kind == "categorical":
            advice = f"its codes are {name}/codes"
        raise StoreError(f"{root}: {name} is {kind}, expected an array; {advice}")
    return _checked(root, name, member)


def _checked(root: object, name: str, array: zarr.Array[Any]) -> zarr.Array[Any]:
    """An array whose rows are tensors of at least one number; raises StoreError for any other."""
    if not _is_tensor(array):
        what = f"shape {array.shape}, whose rows hold nothing" if array.dtype.name in DTYPES else str(array.dtype)
        raise StoreError(f"{root}: {name} has {what}, which no tensor can hold; name other fields")
    return array


def _is_tensor(array: zarr.Array[Any]) -> bool:
    return array.dtype.name in DTYPES and array.ndim > 0 and all(array.shape)


def _numbers(root: object, group: zarr.Group) -> tuple[dict[str, zarr.Array[Any]], list[str]]:
    """All arrays of numbers by path, but for parts of sparse matrices and coarser levels; and the others, described."""
    try:
        members = dict(sorted(group.members(max_depth=None)))
    except Exception as error:  # noqa: BLE001 - of any storage
        raise StoreError(
            f"{root}: its arrays cannot be listed, so name those to read, open_zarr(..., fields=): {one_line(error)}"
        ) from None
    groups = {"": group, **{name: member for name, member in members.items() if isinstance(member, zarr.Group)}}
    kinds = {name: str(member.attrs.get("encoding-type", "")) for name, member in groups.items()}
    sparse = tuple(f"{name}/" for name, kind in kinds.items() if kind.endswith("_matrix"))
    if "X/" in sparse:
        _array(root, group, "X")
    coarser = {level for name, member in groups.items() for level in _coarser(name, member)}
    arrays, others = {}, []
    for name, member in members.items():
        if isinstance(member, zarr.Array):
            if _is_tensor(member) and not name.startswith(sparse) and name not in coarser:
                arrays[name] = member
            else:
                others.append(_described(name, member))
    return arrays, others


def _coarser(name: str, group: zarr.Group) -> Iterator[str]:
    """Paths of the levels of an image of OME-Zarr, but for the finest, which is the first."""
    ome = group.attrs.get("ome")
    images = (ome if isinstance(ome, Mapping) else group.attrs).get("multiscales")
    for image in images if isinstance(images, list) else ():
        levels = image.get("datasets") if isinstance(image, Mapping) else ()
        for level in levels[1:] if isinstance(levels, list) else ():
            yield f"{name}/{level.get('path')}".lstrip("/")


def _same_samples(
    root: object, arrays: Mapping[str, zarr.Array[Any]], axes: Mapping[str, int]
) -> tuple[dict[str, int], list[str]]:
    """The axes of the arrays that have the same samples, and the names of the other arrays; raises ParamsError."""
    dimensions = {name: _dimensions(arrays[name]) for name in axes}
    samples = {name: dimensions[name][number] for name, number in axes.items()}
    inner = {size for name, sizes in dimensions.items() for size in sizes if size != samples[name]}
    counts = Counter(samples.values())
    counts = Counter({size: count for size, count in counts.items() if size not in inner}) or counts
    most = [size for size, count in counts.items() if count == max(counts.values())]
    if len(most) > 1:
        ways = [[_described(name, arrays[name]) for name in axes if samples[name] == size] for size in most]
        raise ParamsError(
            f"{root}: arrays of different samples have equal right to be read: {'; or '.join(map(named, ways))}: "
            "name those to read: open_zarr(..., fields=)"
        )
    return {name: number for name, number in axes.items() if samples[name] in most}, [
        name for name in axes if samples[name] not in most
    ]


def _dimensions(array: zarr.Array[Any]) -> list[Dimension]:
    """The dimensions, named as Zarr v3 or xarray store it."""
    names: Any = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    if not isinstance(names, Sequence) or len(names) != array.ndim:
        names = [None] * array.ndim
    return list(zip(names, array.shape, strict=True))


def _described(name: str, array: zarr.Array[Any]) -> str:
    sizes = ", ".join(f"{dimension} {size}" if dimension else f"{size}" for dimension, size in _dimensions(array))
    return f"{name} ({sizes}){'' if array.dtype.name in DTYPES else f' {array.dtype}'}"


def _axis(array: zarr.Array[Any], axis: int | str) -> int | None:
    """The number of an axis; None if the array has none of that name or number."""
    if isinstance(axis, str):
        names = [name for name, _ in _dimensions(array)]
        return names.index(axis) if axis in names else None
    return axis % array.ndim if -array.ndim <= axis < array.ndim else None


def _same(array: zarr.Array[Any]) -> zarr.Array[Any]:
    return array


def _current(array: zarr.Array[Any]) -> zarr.Array[Any]:
    """An array by its own metadata: what was appended may not be in the group's copy of them."""
    return zarr.open_array(array.store_path, mode="r", zarr_format=array.metadata.zarr_format)


def _coordinate(
    node: Node,
    arrays: Mapping[str, zarr.Array[Any]],
    axes: Mapping[str, int],
    current: Callable[[zarr.Array[Any]], zarr.Array[Any]],
) -> zarr.Array[Any] | None:
    """The coordinate of the samples' dimension, next to an array or at the root, by the conventions of xarray."""
    if isinstance(node, zarr.Array):
        return None
    for name, number in axes.items():
        dimension, size = _dimensions(arrays[name])[number]
        for folder in dict.fromkeys((name.rpartition("/")[0], "")) if dimension else ():
            found = node.get(f"{folder}/{dimension}".lstrip("/"))
            if isinstance(found, zarr.Array) and found.ndim == 1 and found.dtype.kind in "iufmM":
                coordinate = current(found)
                return coordinate if coordinate.shape == (size,) else None
    return None


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
