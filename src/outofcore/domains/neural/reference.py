"""A session one entry at a time through the library of its format (h5py, pynwb, zarr, numpy), for the oracle."""

from __future__ import annotations

import hashlib
import math
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
import numpy.typing as npt
import zarr

from outofcore.domains.neural.params import TimeUnit
from outofcore.domains.neural.recordings.arrays import STREAM_DAMAGE
from outofcore.domains.neural.recordings.folder import split_column
from outofcore.domains.neural.recordings.mat import MatRecording
from outofcore.domains.neural.recordings.recording import matching
from outofcore.domains.neural.sessions import Session, format_of, opened
from outofcore.raw.files import decompressed, natural_order

BLOCK = 1 << 20
READ_ERRORS = (*STREAM_DAMAGE, RuntimeError)
"""Raised by the libraries for a damaged file."""

HELD_BYTES = 1 << 26
"""Total size of arrays of archives and text that are held between bins; larger ones are read again."""

_LAST = threading.local()
_PYNWB = threading.Lock()


class Reference:
    """An open session, by array name and entry number."""

    unit: TimeUnit | None = None

    def __init__(self, session: Session, array: Callable[[str], Any]) -> None:
        self._session, self._array = session, array

    def length(self, name: str, axis: int) -> int:
        """Entries along time."""
        return sum(self._shape(array)[axis] for array in self._arrays(name))

    def longest(self, name: str) -> int:
        """The axis of a vector that may be stored as a row or a column."""
        return int(np.argmax(self._shape(self._arrays(name)[0])))

    def entry(self, name: str, axis: int, number: int) -> npt.NDArray[Any]:
        """One entry along time."""
        for array in self._arrays(name):
            length = self._shape(array)[axis]
            if number < length:
                return self._value(array, axis, number)
            number -= length
        message = f"{name} has no entry {number}"
        raise IndexError(message)

    def times(self, name: str, axis: int, times: str | None) -> Iterator[npt.NDArray[Any]]:
        """The clock of an array, block by block, in the unit of the file."""
        del name, axis
        assert times is not None
        return _blocks(self._array(times))

    def trains(self, name: str) -> list[Iterator[npt.NDArray[Any]]]:
        """Spike times of each neuron, block by block."""
        return [_blocks(train) for array in self._arrays(name) for train in _ragged(array)]

    def labelled(self, name: str, labels: str) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Spike times of all neurons and the label of each spike, block by block."""
        for times, owners in zip(_blocks(self._array(name)), _blocks(self._array(labels)), strict=True):
            yield times, owners if owners.dtype.kind in "biuf" else _hashed(owners)

    def _arrays(self, name: str) -> list[Any]:
        names = [name]
        if "*" in name:
            with opened(self._session) as recording:
                names = matching(recording, name)
        return [self._array(each) for each in names]

    def _shape(self, array: Any) -> tuple[int, ...]:
        return tuple(array.shape[::-1] if _turned(array) else array.shape)

    def _value(self, array: Any, axis: int, number: int) -> npt.NDArray[Any]:
        if isinstance(array, _Member):
            return array.entry(axis, number)
        turned = _turned(array)
        place = array.ndim - 1 - axis if turned else axis
        value = np.asarray(array[(*(slice(None),) * place, number)])
        return value.T if turned else value


@dataclass(frozen=True)
class _Series:
    """A series of an NWB file, as pynwb tells it or as the file does."""

    data: Any
    timestamps: Any
    starting_time: Any
    rate: Any
    conversion: Any
    offset: Any
    channels: Any


class _Images:
    """Pictures as one array, read one by one."""

    def __init__(self, pictures: list[Any]) -> None:
        self._pictures = pictures
        self.shape = (len(pictures), *pictures[0].shape)
        self.ndim = len(self.shape)

    def __getitem__(self, place: tuple[int, ...]) -> npt.NDArray[Any]:
        (number,) = place
        return np.asarray(self._pictures[number][()])


class NwbReference(Reference):
    """An NWB file through pynwb, and through h5py alone where pynwb refuses it."""

    unit: TimeUnit | None = "s"

    def times(self, name: str, axis: int, times: str | None) -> Iterator[npt.NDArray[Any]]:
        """The clock of a series, block by block, in seconds."""
        series = self._array(name)
        if times is not None:
            yield from super().times(name, axis, times)
        elif series.timestamps is not None:
            yield from _blocks(series.timestamps)
        else:
            length = self.length(name, axis)
            for first in range(0, length, BLOCK):
                yield series.starting_time + np.arange(first, min(first + BLOCK, length)) / series.rate

    def trains(self, name: str) -> list[Iterator[npt.NDArray[Any]]]:
        """Spike times of each unit."""
        units = self._arrays(name)[0]
        if isinstance(units, h5py.Group) and "spike_times_index" in units:
            spans = pairwise([0, *units["spike_times_index"][()].tolist()])
            return [iter([units["spike_times"][first:last]]) for first, last in spans]
        if isinstance(units, (h5py.Dataset, h5py.Group)):
            return super().trains(name)
        return [map(units.get_unit_spike_times, [number]) for number in range(len(units))]

    def column(self, name: str, column: str) -> list[Any]:
        """Values of a column of the units, groups by their names."""
        units = self._arrays(name)[0]
        if isinstance(units, h5py.Group):
            found = units[column]
            if found.dtype.kind != "O":
                return list(found[()].tolist())
            return [
                each.decode() if isinstance(each, bytes) else units.file[each].name.split("/")[-1] for each in found
            ]
        return [getattr(each, "name", each) for each in units[column][:]]

    def _shape(self, array: Any) -> tuple[int, ...]:
        return super()._shape(array if isinstance(array, h5py.Dataset) else array.data)

    def _value(self, array: Any, axis: int, number: int) -> npt.NDArray[Any]:
        if isinstance(array, h5py.Dataset):
            return super()._value(array, axis, number)
        value = super()._value(array.data, axis, number)
        scale = np.asarray(array.conversion if array.channels is None else array.conversion * array.channels[()])
        return value if (scale == 1).all() and array.offset == 0 else value * scale + array.offset


@contextmanager
def reference(session: Session) -> Iterator[Reference]:
    """Open a session."""
    kind = format_of(session)
    if kind == "zarr":
        yield Reference(session, zarr.open_group(session.root, mode="r").__getitem__)
    elif kind == "mat":
        with opened(session) as recording:  # one library reads this format
            yield Reference(session, cast("MatRecording", recording).value)
    elif kind == "hdf5":
        with h5py.File(session.root, "r", locking=False) as file:
            yield Reference(session, file.__getitem__)
    elif kind == "nwb":
        with h5py.File(session.root, "r", locking=False) as file:
            yield NwbReference(session, partial(_of_nwb, file, _pynwb(file)))
    else:
        # Sequential streams stay open for the next unit that this thread converts.
        files = [session.root / name for name in session.members] or [session.root]
        state = session, [(stat.st_mtime_ns, stat.st_ino) for stat in map(Path.stat, files)]
        held, _LAST.held = getattr(_LAST, "held", None), None
        if held is None or held[0] != state:
            held = state, _Files(session)
        yield Reference(session, held[1].array)
        _LAST.held = held


def _pynwb(file: h5py.File) -> Any:
    import pynwb

    with _PYNWB, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fields that pynwb has deprecated
        io = None
        # pynwb has no error of its own for files that lack what it requires. What it read before that is known to it.
        with suppress(Exception):
            io = pynwb.NWBHDF5IO(file=file, mode="r")
            io.read()
    return io


def _of_nwb(file: h5py.File, io: Any, name: str) -> Any:
    """A dataset, a series, a pynwb table of units, or any other group."""
    import pynwb

    found, known = file[name], None
    if not isinstance(found, h5py.Group):
        return found
    if io is not None:
        with suppress(Exception):  # not one of the types that pynwb knows
            known = io.get_container(found)
    if isinstance(known, pynwb.misc.Units):
        return known
    if "order_of_images" in found:
        named = [each.data for each in known.order_of_images.data] if isinstance(known, pynwb.base.Images) else []
        return _Series(
            _Images(named or [file[each] for each in found["order_of_images"]]), None, None, None, 1.0, 0.0, None
        )
    if "data" not in found:
        return found
    channels = found.get("channel_conversion")  # pynwb drops it from all but electrical series
    if isinstance(known, pynwb.TimeSeries):
        clock = known.timestamps, known.starting_time, known.rate
        return _Series(known.data, *clock, known.conversion, known.offset, channels)
    data, start = found["data"], found.get("starting_time")
    clock = found.get("timestamps"), *((None, None) if start is None else (start[()], start.attrs["rate"]))
    return _Series(data, *clock, data.attrs.get("conversion", 1.0), data.attrs.get("offset", 0.0), channels)


class _Files:
    """Arrays of an archive or a folder; its vectors and text are held if there is room."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._held: dict[str, Any] = {}

    def array(self, name: str) -> Any:
        if name in self._held:
            return self._held[name]
        if self._session.kind == "npz":
            # Opened for each: members of one archive move each other in Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1.
            archive = zipfile.ZipFile(self._session.root)
            member = _Member(archive.open(f"{name.removesuffix('.npy')}.npy"))
            # Anything else is read as far as it is needed, so that damage behind that does no harm.
            vector = max(member.shape, default=1) == math.prod(member.shape)
            self._held[name] = member.whole() if vector and member.size <= self._room() else member
            return self._held[name]
        file, column = split_column(name)
        if file in self._session.members and not file.endswith(".npy"):
            found = _text(self._session.root / file, column)
            if found.nbytes <= self._room():
                self._held[name] = found
            return found
        return np.load(self._session.root / f"{file.removesuffix('.npy')}.npy", mmap_mode="r", allow_pickle=False)

    def _room(self) -> int:
        return HELD_BYTES - sum(int(each.nbytes) for each in self._held.values())


class _Member:
    """An array of an archive, kept open as a stream because bins are read in ascending order."""

    nbytes = 0  # held in memory

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, self._fortran, self._dtype = read(stream)
        self._offset = stream.tell()

    @property
    def size(self) -> int:
        """Bytes of its values."""
        return math.prod(self.shape) * int(self._dtype.itemsize)

    def whole(self) -> npt.NDArray[Any]:
        """All values of a vector; ends the stream."""
        with self._stream:
            return self[: math.prod(self.shape)].reshape(self.shape)

    def entry(self, axis: int, number: int) -> npt.NDArray[Any]:
        """One entry along an axis; for any but the slowest axis, one from each stretch of the file."""
        order = range(len(self.shape))[:: -1 if self._fortran else 1]
        place = order.index(axis)
        sizes = [self.shape[each] for each in order]
        stretch = math.prod(sizes[place + 1 :])
        parts = [
            self[(outer * sizes[place] + number) * stretch : (outer * sizes[place] + number + 1) * stretch]
            for outer in range(math.prod(sizes[:place]))
        ]
        sizes.pop(place)
        values = np.concatenate(parts).reshape(sizes)
        return values.T if self._fortran else values

    def __getitem__(self, span: slice) -> npt.NDArray[Any]:
        """Values in the order of the file."""
        size = self._dtype.itemsize
        start = span.start or 0
        self._stream.seek(self._offset + start * size)
        return np.frombuffer(self._stream.read((span.stop - start) * size), self._dtype)


def _turned(array: Any) -> bool:
    """Whether MATLAB wrote it, column by column, so that all axes appear reversed."""
    return isinstance(array, h5py.Dataset) and "MATLAB_class" in array.attrs


def _blocks(array: Any) -> Iterator[npt.NDArray[Any]]:
    """A vector, possibly stored as a row or column, block by block."""
    count = max(array.shape, default=0)
    flat = array[0] if array.shape[0] == 1 < count and not isinstance(array, _Member) else array
    for start in range(0, math.prod(array.shape), BLOCK):
        yield np.asarray(flat[start : min(start + BLOCK, count)]).reshape(-1)


def _ragged(found: Any) -> list[Any]:
    """The vectors of neurons: members of a group, MATLAB cells, or one array."""
    if isinstance(found, h5py.Group):
        return [found[key] for key in sorted(found, key=natural_order)]
    if isinstance(found, np.ndarray) and found.dtype == object:
        return list(found.reshape(-1, order="F"))
    if isinstance(found, zarr.Group):
        return [found[key] for key in sorted(found.array_keys(), key=natural_order)]
    if isinstance(found, h5py.Dataset) and found.dtype.kind == "O":
        return [found.file[cell] for cell in found[()].T.reshape(-1)]
    return [found]


def _hashed(labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Words as the integers that a store has for them."""
    words = [each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in labels.tolist()]
    digests = {word: hashlib.blake2b(word.encode(), digest_size=8).digest() for word in set(words)}
    known = {word: -1 if word in ("", "nan") else int.from_bytes(each) >> 1 for word, each in digests.items()}
    return np.array([known[word] for word in words], np.int64)


def _text(path: Path, column: int | str | None) -> npt.NDArray[np.float64]:
    """The numbers of a text file, a table if lines hold several; or a column of it, by number or title."""
    with path.open("rb") as raw:
        source = iter(decompressed(raw, path.name))
        place = None if isinstance(column, str) else column
        if isinstance(column, str):
            titles = next(words for line in source if (words := _words(line, None)) is not None)
            place = [title.strip().strip("\"'") for title in titles].index(column)
        lines = (words for line in source if (words := _words(line, place)) is not None)
        first = next(lines, None)
        if not isinstance(column, str) and first is not None and None in map(_number, first):
            first = next(lines, None)  # that was the header
        if first is None:
            return np.empty(0)
        width = len(first) if column is None else 1
        rows = (_row(words, width) for words in chain([first], lines))
        line_type: np.dtype[Any] = np.dtype((np.float64, (width,)))
        table = np.fromiter(rows, line_type)
    return table[:, 0] if width == 1 else table


def _words(line: bytes, column: int | None) -> list[str] | None:
    text = line.decode("utf-8-sig", "replace").split("#")[0].strip()
    mark = "," if "," in text else ";" if ";" in text else "\t" if "\t" in text else None
    words = text.split(mark)
    return None if not text else words if column is None else words[column : column + 1]


def _row(words: list[str], width: int) -> list[float]:
    numbers = [math.nan if number is None else number for number in map(_number, words)]
    return numbers if len(numbers) == width else [math.nan] * width


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
