"""A format is one class: what it needs and how it may be opened is said there."""

from __future__ import annotations

import numpy as np
import pytest

from outofcore.domains.neural import sessions
from outofcore.domains.neural.recordings.arrays import sliced
from outofcore.domains.neural.recordings.recording import Recording, library
from outofcore.domains.neural.source import units
from outofcore.raw.files import find_files
from tests.domains.neural.rig import section_of


class Toy(Recording):
    """Rows of three bytes; the package that reads them opens a file once."""

    format = "toy"
    suffixes = (".toy",)
    one_reader = True
    package = "numpy"
    is_open = False

    def __init__(self, path):
        library(self.package)
        assert not Toy.is_open
        Toy.is_open = True
        self._values = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 3)

    def names(self):
        return ["rows"]

    def array(self, name, axis=0):
        if name != "rows":
            raise KeyError(name)
        return sliced(self._values, axis, name)

    def close(self):
        Toy.is_open = False


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.setitem(sessions.FORMATS, "toy", Toy)
    monkeypatch.setitem(sessions.SUFFIXES, ".toy", "toy")
    values = np.random.default_rng(0).integers(0, 9, (500, 3), np.uint8)
    (tmp_path / "a.toy").write_bytes(values.tobytes())
    files = find_files(str(tmp_path), "**/*", (".toy",), section="neural")
    names = {"stimulus": None, "responses": "rows", "trial": None}
    return files, section_of(tmp_path, names=names, trial_bins=100), values


def test_a_format_of_one_reader_is_read_where_it_was_opened(toy):
    files, section, values = toy
    slices = [unit.detail["slice"] for unit in units(files, section)]
    assert np.array_equal(np.concatenate([each.robs for each in slices]), values)


def test_a_package_that_one_format_needs_costs_its_sessions_alone(toy, monkeypatch):
    files, section, _ = toy
    monkeypatch.setattr(Toy, "package", "no_such_reader.of_files")
    (unit,) = units(files, section)
    (reject,) = unit.detail["rejects"]
    assert reject.reason == "missing_package"
    assert "needs the package no_such_reader" in reject.detail
