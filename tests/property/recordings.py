"""Small recordings in every format, to be mutated, and ways of changing their structure."""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import h5py
import numpy as np

FRAMES = 40


def arrays(generator: np.random.Generator) -> dict[str, Any]:
    """A session: frames, responses, spikes with times and neurons, trials."""
    times = np.sort(generator.uniform(0, FRAMES / 60, 60))
    edges = np.arange(0, FRAMES, 10) / 60
    return {
        "stim": generator.integers(0, 256, (FRAMES, 4, 3), np.uint8),
        "robs": generator.poisson(1.0, (FRAMES, 3)).astype(np.float32),
        "trial": np.repeat(np.arange(4), 10).astype(np.int32),
        "frame_times": np.arange(FRAMES) / 60,
        "spike_times": times,
        "spike_neurons": generator.integers(0, 3, 60).astype(np.int32),
        "trials": np.stack([edges, edges + 10 / 60], axis=1),
        "film": np.array([0, 1, 0, -1], np.int32),
    }


def hdf5(generator: np.random.Generator) -> bytes:
    """An HDF5 file; arrays in pieces, compressed, or plain."""
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        for number, (name, array) in enumerate(arrays(generator).items()):
            options = ({}, {"chunks": True}, {"compression": "gzip", "shuffle": True, "fletcher32": True})
            file.create_dataset(name, data=array, **options[(number + int(generator.integers(3))) % 3])
    return stream.getvalue()


def nwb(generator: np.random.Generator) -> bytes:
    """A file with the parts of NWB that are read: two series with clocks, units, trials."""
    held = arrays(generator)
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.attrs["nwb_version"] = "2.6.0"
        for path, data, clock in (
            ("stimulus/presentation/movie", held["stim"], None),
            ("acquisition/dff", held["robs"], held["frame_times"]),
        ):
            series = file.create_group(path)
            series.attrs["neurodata_type"] = "TimeSeries"
            made = series.create_dataset("data", data=data)
            made.attrs["conversion"], made.attrs["offset"], made.attrs["unit"] = 1.0, 0.0, "n.a."
            if clock is None:
                start = series.create_dataset("starting_time", data=0.0)
                start.attrs["rate"], start.attrs["unit"] = 60.0, "seconds"
            else:
                series.create_dataset("timestamps", data=clock).attrs["unit"] = "seconds"
        units = file.create_group("units")
        order = np.argsort(held["spike_neurons"], kind="stable")
        units.create_dataset("spike_times", data=held["spike_times"][order])
        ends = np.cumsum(np.bincount(held["spike_neurons"], minlength=3)).astype(np.uint8)
        units.create_dataset("spike_times_index", data=ends)
        trials = file.create_group("intervals/trials")
        trials.attrs["colnames"] = ["start_time", "stop_time", "film"]
        for name, column in (("start_time", 0), ("stop_time", 1)):
            trials.create_dataset(name, data=held["trials"][:, column])
        trials.create_dataset("film", data=held["film"])
    return stream.getvalue()


def npz(generator: np.random.Generator) -> bytes:
    """An archive of arrays, compressed or not."""
    stream = io.BytesIO()
    save = np.savez_compressed if generator.integers(2) else np.savez
    save(stream, **arrays(generator))
    return stream.getvalue()


def reshape_npz(dice: random.Random) -> bytes:
    """An archive one of whose arrays is not what it should be."""
    held = arrays(np.random.default_rng(dice.randrange(1000)))
    name = dice.choice(list(held))
    held[name] = odd_array(held[name], dice)
    if dice.random() < 0.1:
        held.pop(dice.choice(list(held)))
    stream = io.BytesIO()
    np.savez(stream, **held)
    return stream.getvalue()


def change_hdf5(content: bytes, dice: random.Random) -> bytes:
    """Change the content of an HDF5 file, not its bytes: types, shapes, links, attributes."""
    stream = io.BytesIO(content)
    with h5py.File(stream, "r+") as file:
        for _ in range(dice.choice((1, 1, 2))):
            names = _datasets(file)
            dice.choice(_CHANGES)(file, dice.choice(names), dice)
    return stream.getvalue()


def _datasets(file: Any) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found


def odd_array(array: Any, dice: random.Random) -> Any:
    """An array of another type or shape, or with values that nobody expects."""
    made: tuple[Callable[[], Any], ...] = (
        lambda: array.astype(dice.choice((np.float16, np.float64, np.complex64, np.int8, np.uint64, bool, "S5"))),
        lambda: array[: dice.randrange(len(array) + 1)],
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: array[..., None],
        lambda: np.zeros((0, *array.shape[1:]), array.dtype),
        lambda: np.array(array.flat[0]),
        lambda: array[::-1],
        lambda: np.where(np.arange(len(array)).reshape(-1, *[1] * (array.ndim - 1)) % 7, array, np.nan),
        lambda: np.where(np.arange(len(array)).reshape(-1, *[1] * (array.ndim - 1)) % 5, array, np.inf),
        lambda: array.astype(np.float64) * 1e300,
        lambda: -array.astype(np.float64),
        lambda: np.array([str(each) for each in array.reshape(-1)[:50]], object).astype("U8"),
        lambda: np.broadcast_to(array.flat[0], (2, *array.shape)),
        lambda: array.astype(array.dtype.newbyteorder(">")),
        lambda: np.repeat(array, 3, axis=0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers overflow, and lose their imaginary part
        try:
            return dice.choice(made)()
        except (IndexError, OverflowError, TypeError, ValueError):  # of an empty array, or of words
            return array


def _replace(file: Any, name: str, dice: random.Random) -> None:
    if not file[name].shape or file[name].nbytes > 2**20:
        return
    array = file[name][()]
    attributes = dict(file[name].attrs)
    del file[name]
    made = odd_array(array, dice)
    if made.dtype.kind in "OU":
        file.create_dataset(name, data=made.astype(str).astype(object), dtype=h5py.string_dtype())
    else:
        file.create_dataset(name, data=made)
    for key, value in attributes.items():
        with suppress(UnicodeEncodeError):  # an earlier change has left bytes that are no text
            file[name].attrs[key] = value


def _remove(file: Any, name: str, _dice: random.Random) -> None:
    del file[name]


def _huge(file: Any, name: str, dice: random.Random) -> None:
    """A shape of terabytes without a byte behind it."""
    if not file[name].shape:
        return
    kind, shape = file[name].dtype, file[name].shape
    rows = dice.choice((2**24, 2**40, 2**62 // max(1, int(np.prod(shape[1:])) * kind.itemsize)))
    del file[name]
    file.create_dataset(name, (rows, *shape[1:]), kind, chunks=(16, *shape[1:]))


def _wide(file: Any, name: str, _dice: random.Random) -> None:
    """Frames of gigabytes without a byte behind them."""
    kind, rows = file[name].dtype, max(1, file[name].size // 12)
    del file[name]
    file.create_dataset(name, (rows, 2**17, 2**17), kind, chunks=(1, 64, 64))


def _link_out(file: Any, name: str, dice: random.Random) -> None:
    del file[name]
    file[name] = h5py.ExternalLink(dice.choice(("/etc/passwd", "x.h5", "../x.h5")), "/stim")


def _circle(file: Any, name: str, dice: random.Random) -> None:
    del file[name]
    file[name] = h5py.SoftLink(dice.choice((f"/{name}", "/nowhere", "/", f"/{name}/x")))


def _group(file: Any, name: str, _dice: random.Random) -> None:
    if file[name].nbytes > 2**20:
        return
    array = file[name][:1] if file[name].shape else 0
    del file[name]
    file.create_group(name).create_dataset("1", data=array)


def _attribute(file: Any, name: str, dice: random.Random) -> None:
    place = file[dice.choice((name, name.rpartition("/")[0] or "/"))]
    key = dice.choice([*place.attrs, "MATLAB_class", "rate", "unit", "conversion", "offset", "colnames"])
    place.attrs[key] = dice.choice((0, -1.0, np.nan, "?", [1, 2, 3], b"\xff", 1e308))


def _outside(file: Any, name: str, _dice: random.Random) -> None:
    """Values that are stored in another file."""
    if not file[name].shape:
        return
    kind, shape = file[name].dtype, file[name].shape
    del file[name]
    file.create_dataset(name, shape, kind, external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


_CHANGES = (_replace, _replace, _replace, _remove, _huge, _wide, _link_out, _circle, _group, _attribute, _outside)
