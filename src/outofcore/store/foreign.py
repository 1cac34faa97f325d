"""Read a Zarr that somebody else wrote, in place, as an unsealed store.

zarr-python decodes, so any codec, version, shape of chunks and byte order that it reads is read; the usual ones are
decoded without it, see ``foreign_chunks.py``. What a sealed store promises is not known here: a file that changes is
not noticed, and a missing chunk reads as the fill value.

Rows are read by chunks of rows that the loader's blocks and budget are made of: as many as a stored chunk of the widest
field has, or up to four times as many if these are whole chunks of the other fields too. A field of which they are not
keeps the stored chunk that was decoded last. Stored chunks that fill whole blocks of the loader are read together, if
they are at most four, or 1 MiB.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
import zarr.abc.store
import zarr.storage
from zarr.buffer.cpu import NDBuffer

from outofcore.errors import ParamsError, StoreError
from outofcore.ndarrays import Ints
from outofcore.store.array import Array
from outofcore.store.connection import address_of, connect, kind_of, one_line, shown, without_secrets
from outofcore.store.foreign_chunks import PlainChunks, plain_chunks, with_whole_chunks
from outofcore.store.remote import RemoteFiles
from outofcore.store.unsealed import Unsealed, split_rows
from outofcore.store.zarr_arrays import (
    Chosen,
    Packing,
    choose,
    dated,
    missing_chunks,
    named,
    packing_of,
    sequence_ends,
)

_MOST_TOGETHER = 4  # stored chunks of the widest field
_TOGETHER_BYTES = 1 << 20  # of more chunks, if they are small
_BLOCK_ROWS = 16  # the loader's blocks are multiples of this; one that ends inside a chunk decodes all of it
_LEAST_CHUNKS = 64  # that a store is made of if stored chunks are read together: a pool mixes as many

Zarr = zarr.Group | zarr.Array[Any] | zarr.abc.store.Store
ZarrLike = str | Path | Zarr
READABLE = str, Path, zarr.Group, zarr.Array, zarr.abc.store.Store


class ForeignArray(Array):
    """Rows of an array, from ``first`` on; its sample axis comes first."""

    decoding = 3  # a decoded chunk, the stored chunks that it is made of, and their encoded bytes

    def __init__(
        self,
        root: Path | str,
        name: str,
        array: zarr.Array[Any],
        axis: int,
        chunk: int,
        packing: Packing | None,
        plain: PlainChunks | None,
        rows: range,
    ) -> None:
        shape = (len(rows), *array.shape[:axis], *array.shape[axis + 1 :])
        dtype = packing.dtype if packing else array.dtype.newbyteorder("=")
        codecs = ", ".join(type(codec).__name__ for codec in array.compressors) or "none"
        super().__init__(root, name, shape, dtype, chunk, chunk, codecs)
        self._array, self._axis, self._first, self._packing = with_whole_chunks(array), axis, rows.start, packing
        self._stored_rows = array.chunks[axis]
        self._keeps = self.chunk_rows % self._stored_rows > 0
        self._plain = None if self._keeps else plain
        self.cached_bytes = min(self._stored_rows, array.shape[axis]) * self.row_bytes if self._keeps else 0
        if self._plain is not None:
            self.cached_bytes = self._plain.index_bytes
        self._kept: tuple[int, npt.NDArray[Any]] | None = None  # number of a stored chunk, and its rows
        self._lock = threading.Lock()

    def chunk(self, number: int, out: npt.NDArray[Any]) -> int:
        return self.chunks_into(np.array([number]), out[np.newaxis], np.zeros(1, np.int64))

    def chunks_into(self, chunks: Ints, buffer: npt.NDArray[Any], slots: Ints) -> int:
        starts = chunks * self.chunk_rows
        counts = np.minimum(len(self) - starts, self.chunk_rows)
        left = np.ones(len(chunks), np.bool_)
        if self._plain is not None:
            left = ~self._plain.read(self._first + starts, counts, buffer, slots)
        read = self._copy_kept if self._keeps else self._decode
        for number in np.flatnonzero(left).tolist():  # of a form that is not usual, missing or damaged
            read(self._first + int(starts[number]), buffer[slots[number], : counts[number]])
        for number in np.flatnonzero(counts < self.chunk_rows).tolist():
            buffer[slots[number], counts[number] :] = 0
        return int(counts.sum()) * self.row_bytes

    def announce(self, chunks: Ints) -> None:
        if self._plain is not None:
            starts = self._first + chunks * self.chunk_rows
            self._plain.announce(starts, np.minimum(starts + self.chunk_rows, self._first + len(self)))

    def _copy_kept(self, first: int, out: npt.NDArray[Any]) -> None:
        while len(out):
            stored, within = divmod(first, self._stored_rows)
            with self._lock:
                kept = self._kept
                if kept is None or kept[0] != stored:
                    begin = stored * self._stored_rows
                    rows = min(self._stored_rows, self._array.shape[self._axis] - begin)
                    kept = self._kept = stored, self._decode(begin, self._room(rows))
            some = kept[1][within : within + len(out)]
            out[: len(some)] = some
            first, out = first + len(some), out[len(some) :]

    def _decode(self, start: int, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        stop = start + len(out)
        place = (*(slice(None),) * self._axis, slice(start, stop))
        try:
            # Into the rows themselves, which saves a copy, if they are in the order in which zarr-python writes.
            if self._packing:
                self._packing.unpack(np.moveaxis(np.asarray(self._array[place]), self._axis, 0), out)
            elif self._axis == 0 and self._array.dtype == out.dtype and out.flags.c_contiguous:
                self._array.get_basic_selection(place, out=NDBuffer.from_numpy_array(out))
            else:
                out[...] = np.moveaxis(np.asarray(self._array[place]), self._axis, 0)
        except Exception as error:  # noqa: BLE001 - of any codec or storage
            raise StoreError(
                f"{self.root}: rows {start} to {stop} of {self.path} cannot be read: {one_line(error)}"
            ) from None  # whose text may hold the whole address
        return out


class ForeignStore(Unsealed):
    """A Zarr without a seal; made by :func:`open_zarr`."""

    gaps = True

    def __init__(
        self,
        root: Path | str,
        chosen: Chosen,
        chunk: int,
        splits: Mapping[str, range],
        packings: Mapping[str, Packing],
        lengths: Ints | None,
        place: str,
        reopened: Callable[[], Unsealed],
    ) -> None:
        arrays, axes, self._coordinate, self.left_out = chosen
        facts: dict[str, Any] = {
            name: [list(array.shape), str(array.dtype), list(array.chunks), axes[name], repr(packings.get(name))]
            for name, array in arrays.items()
        }
        if lengths is not None:
            facts[""] = hashlib.sha256(lengths.tobytes()).hexdigest()
        super().__init__(root, "zarr", {}, splits, chunk, facts, place, reopened)
        self._zarrs, self._packings, self._lengths = arrays, packings, lengths
        self._array_of = {}
        for name, array in arrays.items():
            plain = None if axes[name] or name in packings else plain_chunks(array, _files_of(array))
            self._array_of[name] = partial(
                ForeignArray, root, name, array, axes[name], chunk, packings.get(name), plain
            )

    def fields(self, rows: range) -> dict[str, ForeignArray]:
        return {name: array_of(rows) for name, array_of in self._array_of.items()}

    @cached_property
    def _ends(self) -> tuple[Ints, str]:
        """The row after each sequence but the last, and what to say of them."""
        if self._lengths is not None:
            return np.cumsum(self._lengths), ""
        if self._coordinate is None:
            return np.empty(0, np.int64), ""
        try:
            return sequence_ends(with_whole_chunks(self._coordinate))
        except Exception as error:  # noqa: BLE001 - of any codec or storage
            raise StoreError(f"{self.root}: {self._coordinate.name} cannot be read: {one_line(error)}") from None

    def ends(self, rows: range) -> Ints:
        del rows
        return self._ends[0]

    def missing(self, field: str) -> int | None:
        """Stored chunks of a field that were never written or are missing; None if its storage lists nothing."""
        try:
            return missing_chunks(self._zarrs[field])
        except Exception:  # noqa: BLE001 - of any storage, such as a web server
            return None

    def note(self, split: str, fields: Sequence[str]) -> str:
        """What the user of a split should know."""
        counts = [self.missing(name) for name in fields]
        known = [count for count in counts if count is not None]
        missing = f"{sum(known):,}" if len(known) == len(counts) else "unknown, as its storage lists nothing"
        lines = [f"{self.root}: not sealed: changes are not noticed, and a missing chunk reads as the fill value"]
        lines[0] += f"; chunks that were never written or are missing: {missing}"
        if self.left_out:
            lines.append(f"left out, unless open_zarr(..., fields=) names it: {named(self.left_out)}")
        for name in fields:
            if name in self._packings:
                first = self.rows(split)[name].read(0, min(self.chunk_rows, len(self.rows(split))))
                lines.append(
                    f"{name} is unpacked by its attributes to {first.dtype}, {np.isnan(first).sum():,} of the first "
                    f"{first.size:,} values are missing"
                )
            elif units := dated(self._zarrs[name]):
                lines.append(f"{name} is as stored: {units}")
        return "; ".join([*lines, *filter(None, [self._ends[1]])])


def open_zarr(
    source: ZarrLike,
    fields: Sequence[str] | None = None,
    axis: int | str = 0,
    rows: tuple[int, int] | None = None,
    splits: Mapping[str, float] | None = None,
    *,
    strict: bool = False,
    packed: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> ForeignStore:
    """Open a Zarr that outofcore did not write, to read it in place with :func:`outofcore.loader`.

    Parameters
    ----------
    source
        A path, an address that obstore opens (``s3://``, ``gs://``, ``az://``, ``https://``), a ``zarr.Group``,
        ``zarr.Array`` or zarr ``Store``. Zarr v2 or v3.
    fields
        Arrays by their path in the group; None for the arrays of numbers that share the dimension of most, which is
        no inner dimension of another array; of the levels of an OME-Zarr the finest. :attr:`ForeignStore.left_out`
        names the others.
    axis
        The axis of the samples, by number or by the name of a dimension.
    rows
        First row and end of what is read as the split ``train``; None for all.
    splits
        Shares of further splits, such as ``{"val": 0.1, "test": 0.1}``: contiguous rows at the end, in this
        order. Splits begin at whole chunks where each gets at least ten by its share, else at any row.
    strict
        Refuse an array with missing chunks, instead of reading them as the fill value.
    packed
        Give the stored numbers, instead of what the attributes say that they stand for by the conventions of CF
        (``scale_factor``, ``add_offset``, ``_FillValue``, ``missing_value``, ``_Unsigned``): float32 for packed numbers
        of one or two bytes, else float64, with NaN for no value.
    lengths
        Samples of each sequence, none of which a window crosses; None to end sequences where the step of the samples'
        coordinate, such as ``time``, changes by half or more.

    Raises
    ------
    StoreError
        If there is no Zarr, or it has no such field.
    ParamsError
        If axis, rows, splits or lengths do not fit it, or ``fields`` has to decide between arrays.
    """
    root, group, place = _opened(source)
    if _is_ours(place, group):
        raise StoreError(
            f"{root}: is a store of outofcore or a part of one: open the whole store by its path or address; without "
            "its seal, convert again"
        )
    chosen = choose(root, group, fields, axis)
    arrays, counts = chosen.arrays, None if lengths is None else np.asarray(lengths)
    if counts is not None and (
        counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 1).any() or counts.sum() != chosen.samples
    ):
        raise ParamsError(f"lengths: expected samples of each sequence, {chosen.samples:,} in all, as {root} has")
    chunk = _chunk_rows(arrays, chosen.axes)
    store = ForeignStore(
        root,
        chosen,
        chunk,
        split_rows(root, chosen.samples, chunk, rows, splits),
        {} if packed else {name: packing for name, array in arrays.items() if (packing := packing_of(array))},
        None if counts is None else counts.astype(np.int64),
        place,
        partial(open_zarr, source, fields, axis, rows, splits, strict=strict, packed=packed, lengths=lengths),
    )
    for name in arrays if strict else ():
        if absent := store.missing(name):
            raise StoreError(
                f"{root}: {absent} of {arrays[name].nchunks} chunks of {name} are missing, and strict=True refuses them"
            )
        if absent is None:
            raise StoreError(
                f"{root}: its storage lists no files, so missing chunks are not known; strict=True needs that"
            )
    return store


class _Files(zarr.storage.LocalStore):
    """What a path names; a pipe or a socket in it is refused, for which zarr-python would wait."""

    async def get(self, key: str, *options: Any, **named: Any) -> Any:
        self._refuse(key)
        return await super().get(key, *options, **named)

    def get_sync(self, key: str, *options: Any, **named: Any) -> Any:
        self._refuse(key)
        return super().get_sync(key, *options, **named)

    def _refuse(self, key: str) -> None:
        path = self.root / key
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise StoreError(f"{path}: expected a file, got a pipe, a socket or a device; get the store again")


class _Addressed(zarr.storage.ObjectStore[Any]):
    """What an address names. Most web servers list nothing: they are asked once, where a storage is asked again."""

    def __init__(self, address: str) -> None:
        super().__init__(connect(address), read_only=True)
        self.address = address
        listing = connect(address, retries=None if kind_of(address).lists else 0)
        self._listed = zarr.storage.ObjectStore(listing, read_only=True)

    @cached_property
    def files(self) -> RemoteFiles:
        """Its objects by ranges."""
        return RemoteFiles(self.address)

    def list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        return self._listed.list_prefix(prefix)

    def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        return self._listed.list_dir(prefix)


def _files_of(array: zarr.Array[Any]) -> Path | RemoteFiles | None:
    """Where its chunks are read without zarr-python; None if they are in a storage of another kind."""
    store, path = array.store_path.store, array.store_path.path
    if isinstance(store, _Files) or type(store) is zarr.storage.LocalStore:
        return Path(store.root, path)
    return store.files if isinstance(store, _Addressed) else None


def _opened(source: ZarrLike) -> tuple[Path | str, zarr.Group | zarr.Array[Any], str]:
    """What messages call it, the group or array, and its place, links resolved."""
    root: Path | str
    place: Any = source
    if not isinstance(source, str | Path):
        root = without_secrets(str(source.store_path if isinstance(source, zarr.Group | zarr.Array) else source))
    elif address := address_of(source):
        root, place = shown(source), _Addressed(address)
    else:
        root, place = Path(source), _Files(source, read_only=True) if Path(source).is_dir() else source
    try:
        group = source if isinstance(source, zarr.Group | zarr.Array) else zarr.open(place, mode="r")
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - of any storage
        raise StoreError(
            f"{root}: no Zarr can be opened there: {one_line(error)}"
        ) from None  # whose text may hold the whole address
    store, path = group.store_path.store, group.store_path.path
    if isinstance(store, _Addressed):
        return root, group, shown(store.address)
    if isinstance(store, zarr.storage.LocalStore):
        return root, group, os.path.realpath(Path(store.root, path))
    return root, group, os.path.realpath(root) if isinstance(root, Path) else f"{id(store)}/{path}"


def _is_ours(place: str, group: zarr.Group | zarr.Array[Any]) -> bool:
    """Whether it is a store of ours, with seal or without; of one in files, also a part."""
    groups = [dict(group.attrs)]
    for folder in Path(place).parents if isinstance(group.store_path.store, zarr.storage.LocalStore) else ():
        with suppress(OSError, ValueError, KeyError, TypeError):
            groups.append(dict(json.loads((folder / "zarr.json").read_bytes())["attributes"]))
    return any({"domain", "parts", "splits"} <= attributes.keys() for attributes in groups)


def _chunk_rows(arrays: Mapping[str, zarr.Array[Any]], axes: Mapping[str, int]) -> int:
    """Rows of a chunk as the loader reads them."""
    sizes = {
        name: math.prod(array.shape) // max(1, array.shape[axes[name]]) * array.dtype.itemsize
        for name, array in arrays.items()
    }
    widest, *others = sorted(arrays, key=lambda name: (-sizes[name], name))
    stored = rows = arrays[widest].chunks[axes[widest]]
    for name in others:
        common = math.lcm(rows, arrays[name].chunks[axes[name]])
        rows = common if common <= _MOST_TOGETHER * stored else rows
    blocks = math.lcm(rows, _BLOCK_ROWS)
    most = max(_MOST_TOGETHER * stored, _TOGETHER_BYTES // max(1, sizes[widest]))
    return blocks if blocks <= min(most, arrays[widest].shape[axes[widest]] // _LEAST_CHUNKS) else rows
