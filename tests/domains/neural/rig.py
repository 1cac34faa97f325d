"""Converts sessions as the driver does, and gives back what the store would hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pynwb
import scipy.io
import zarr

from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.params import NeuralSection
from outofcore.raw.files import find_files
from outofcore.raw.unit import NO_AUDIT, Reject

NAMES = {"stimulus": "stim", "responses": "robs", "trial": "trial"}


@dataclass
class Part:
    """A session after conversion: rows in order, and a dict for each sequence."""

    rows: dict[str, np.ndarray] = field(default_factory=dict)
    sequences: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Converted:
    parts: dict[str, Part]
    rejects: list[Reject]
    counts: Counter[str]
    found: int
    accepted: int
    units: int
    raw_bytes: int
    schemas: dict[str, Any]

    @property
    def only(self) -> Part:
        (part,) = self.parts.values()
        return part

    @property
    def reasons(self) -> Counter[str]:
        return Counter(reject.reason for reject in self.rejects)


def section_of(raw: Path, *, match: str = "**/*", tensors: Any = None, **source: Any) -> NeuralSection:
    content = {"raw": str(raw), "match": match, "source": source}
    return NeuralSection.model_validate(content | ({"tensors": tensors} if tensors else {}))


def convert(raw: Path, **settings: Any) -> Converted:
    section = section_of(raw, **settings)
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section="neural")
    schemas = DOMAIN.schemas(section, files)
    converter = DOMAIN.converter(section, NO_AUDIT)
    result = Converted({}, [], Counter(), 0, 0, 0, 0, schemas)
    pieces: dict[str, dict[str, list[np.ndarray]]] = {}
    going_on = False
    for unit in DOMAIN.units(files, section):
        made = converter(unit)
        result.units += 1
        result.raw_bytes += unit.raw_bytes
        result.found += made.found
        result.accepted += len(made.keys) - made.continues
        result.rejects += made.rejects
        result.counts.update(made.counts)
        assert made.continues == going_on or not len(made.keys)
        assert not (going_on and not made.continues)
        going_on = made.unfinished
        if not len(made.keys):
            continue
        part = result.parts.setdefault(made.part, Part())
        columns = dict(made.sequences)
        for number in range(len(made.keys)):
            one = {name: column[number].item() for name, column in columns.items()} | {"key": bytes(made.keys[number])}
            if made.continues and number == 0:
                part.sequences[-1]["length"] += one["length"]
                assert part.sequences[-1]["key"] == one["key"]
            else:
                part.sequences.append(one)
        for name, rows in made.rows.items():
            pieces.setdefault(made.part, {}).setdefault(name, []).append(rows)
    assert not going_on
    for name, fields in pieces.items():
        result.parts[name].rows = {field: np.concatenate(each) for field, each in fields.items()}
        for stored in schemas[name].rows:
            rows = result.parts[name].rows[stored.name]
            assert rows.shape[1:] == stored.shape
            assert rows.dtype == np.dtype(stored.dtype)
    assert result.found == result.accepted + len(result.rejects)
    assert result.raw_bytes == sum(file.bytes for file in files)
    return result


def save_session(kind, folder, arrays):
    """The same arrays in a format."""
    if kind == "h5":
        with h5py.File(folder / "a.h5", "w") as file:
            for name, array in arrays.items():
                file[name] = array
    elif kind == "npz":
        np.savez(folder / "a.npz", **arrays)
    elif kind == "compressed":
        np.savez_compressed(folder / "a.npz", **arrays)
    elif kind == "mat":
        scipy.io.savemat(folder / "a.mat", arrays, do_compression=True, oned_as="column")
    elif kind == "npy":
        for name, array in arrays.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{name}.npy", array)
    else:
        group = zarr.open_group(folder / "a.zarr", mode="w")
        for name, array in arrays.items():
            group.create_array(name, data=array, chunks=(64, *array.shape[1:]))
    return folder


def write_nwb(folder, file):
    """A session of pynwb as a file."""
    with pynwb.NWBHDF5IO(folder / "a.nwb", "w") as io:
        io.write(file)
    return folder / "a.nwb"
