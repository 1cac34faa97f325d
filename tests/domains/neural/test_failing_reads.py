"""A read or an open that fails is a failure of the system, in every format: no other store, nor damage of the file."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter

import numpy as np
import pytest

from tests.cases import long_cases
from tests.domains.neural.rig import save_session
from tests.system.failing_reads import built, printed

PLACES = 20
"""Reads and opens of a conversion that fail, one at a time."""

CONVERT = """
import ctypes, json, shutil, sys, warnings
import outofcore
from outofcore.domains.neural import survey

raw, out, source, number, places = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), *map(int, sys.argv[4:])
system = ctypes.CDLL(None)
system.arm.argtypes = ctypes.c_char_p, ctypes.c_long, ctypes.c_int
system.count.restype = ctypes.c_long
warnings.simplefilter("ignore")

def outcome(failing):
    for path in (out, out + ".work"):
        shutil.rmtree(path, ignore_errors=True)
    survey._last = None
    system.arm(raw.encode(), failing, number)
    try:
        outofcore.convert("neural", raw, out, source=source)
    except (outofcore.OutOfCoreError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return outofcore.open_store(out).digest

outcome(0)
whole = outcome(2**40)
count = system.count()
failing = sorted({1 + place * (count - 1) // (places - 1) for place in range(places)})
print(json.dumps([whole, count, [outcome(each) for each in failing]]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return built(tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("h5", errno.EIO),
        *long_cases(*((kind, errno.EIO) for kind in ("compressed", "npz", "mat", "npy", "zarr", "text"))),
        *long_cases(("h5", errno.EMFILE), ("compressed", errno.EMFILE)),
    ],
)
def test_a_read_that_fails_makes_no_other_store(tmp_path, frames, library, kind, number):
    raw = tmp_path / "raw"
    raw.mkdir()
    arrays = {"stim": frames["stim"], "robs": frames["robs"], "trial": frames["trial"], "times": np.arange(600) / 60}
    names = {"stimulus": "stim", "responses": "robs", "frame_times": "times", "sample_times": "times"}
    if kind == "text":
        np.save(raw / "stim.npy", arrays["stim"])
        np.savetxt(raw / "robs.txt", arrays["robs"])
        names |= {"responses": "robs.txt", "frame_times": None, "sample_times": None}
    else:
        save_session(kind, raw, arrays)
    source = {"names": names, "bin_width": None if kind == "text" else 1 / 30, "trial_bins": 50}
    arguments = raw, tmp_path / "a.zarr", json.dumps(source), number, PLACES
    whole, count, outcomes = printed(library, CONVERT, *arguments)
    assert len(whole) == 64
    assert count > 3
    kinds = Counter(outcome.partition(":")[0] for outcome in outcomes)
    assert not {*kinds} - {whole, "OSError", "RawInputError", "SessionError"}, kinds
    assert "OSError" in kinds
    expected = [os.strerror(number), *([str(raw)] if kind != "zarr" else [])]  # zarr-python names no file
    assert not [outcome for outcome in outcomes if outcome != whole and not all(word in outcome for word in expected)]
