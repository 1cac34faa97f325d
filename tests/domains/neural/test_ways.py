from __future__ import annotations

import pytest

from outofcore.domains.neural.plan import MEMORY_SHARE, Size, advice, ways
from outofcore.domains.planning import LoaderBytes, Outlook
from outofcore.settings.machine import Machine

GB = 10**9


def machine_of(memory, disk, copies=1):
    machine = Machine(workers=2, memory=memory)
    return Outlook(
        files=(), machine=machine, memory=memory, free_bytes=disk, store_copies=copies, loaders=None, takes=None
    )


# A server of 504 GB with 258 GB of disk free, and its 20 sessions of 226 GB.
SERVER = machine_of(504 * GB, 258 * GB)
PIXEL_BYTES = {"uint8": 1, "bfloat16": 2, "float32": 4}
MEASURED = {"uint8": {"lz4": 0.55, "zstd": 0.4}}


def size(total, dtype):
    """Frames of ``total`` bytes as uint8; 90 % train, 5 % validate, and the pools of both loaders take 1 GB."""
    wide = PIXEL_BYTES[dtype]
    held = LoaderBytes(loaded=wide * total * 95 // 100, streamed=wide * GB, mapped=0)
    return Size(wide * total, held, LoaderBytes(loaded=2 * wide * total, streamed=wide * GB, mapped=0))


def found(total, machine, compressed=MEASURED, dtypes=tuple(PIXEL_BYTES)):
    rows = list(ways({dtype: size(total, dtype) for dtype in dtypes}, compressed, machine))
    return {(row["way"], row["pixels"], row["codec"]): row for row in rows}


VERDICTS = [
    ("float32 needs more disk", SERVER, ("mapped", "float32", "none"), "needs 1.08 TB of disk, 258 GB free"),
    ("the margin of 20 %", SERVER, ("mapped", "uint8", "none"), "needs 271 GB of disk, 258 GB free"),
    ("compressed bytes", SERVER, ("streamed", "uint8", "lz4"), "fits"),
    ("memory has to be read from a disk", SERVER, ("ram", "bfloat16", "none"), "needs 542 GB of disk, 258 GB free"),
    ("a larger disk", machine_of(504 * GB, 1400 * GB), ("ram", "bfloat16", "none"), "fits"),
    ("a larger disk, mapped", machine_of(504 * GB, 1400 * GB), ("mapped", "float32", "none"), "fits"),
    (
        "float32 in memory",
        machine_of(504 * GB, 1400 * GB),
        ("ram", "float32", "none"),
        "needs 859 GB of memory, 454 GB usable",
    ),
    ("no copy", machine_of(64 * GB, 258 * GB), ("streamed", "uint8", "lz4"), "fits"),
    (
        "the copy of a cache",
        machine_of(64 * GB, 258 * GB, 2),
        ("streamed", "uint8", "lz4"),
        "needs 298 GB of disk, 258 GB free",
    ),
    ("the copy, compressed more", machine_of(64 * GB, 258 * GB, 2), ("streamed", "uint8", "zstd"), "fits"),
]


@pytest.mark.parametrize(
    ("machine", "way", "verdict"), [case[1:] for case in VERDICTS], ids=[case[0] for case in VERDICTS]
)
def test_ways_to_keep_226_gb(machine, way, verdict):
    assert found(226 * GB, machine)[way]["verdict"] == verdict


def test_a_way_states_its_sizes_and_settings():
    ways_of = found(226 * GB, SERVER)
    offered = ways_of["streamed", "uint8", "lz4"]
    assert offered["store"] == pytest.approx(0.55 * 226 * GB, rel=1e-3)
    assert offered["disk needed"] == pytest.approx(1.2 * offered["store"], rel=1e-6)
    assert "source.stimulus_dtype uint8, store.codec lz4" in offered["settings"]
    assert advice(tuple(ways_of.values())).startswith("ram with uint8, codec zstd: residency ram")
    assert ways_of["ram", "bfloat16", "none"]["memory"] == pytest.approx(0.95 * 452 * GB, rel=1e-2)


def test_a_small_machine_streams_or_holds_a_part():
    machine = machine_of(8 * GB, 100 * GB)
    ways_of = found(12 * GB, machine)
    assert ways_of["ram", "uint8", "zstd"]["verdict"] != "fits"
    hybrid = ways_of["hybrid", "uint8", "zstd"]
    assert hybrid["verdict"] == "fits"
    assert hybrid["memory"] == int(8 * GB * MEMORY_SHARE)
    fitting = [row["way"] for row in ways_of.values() if row["verdict"] == "fits" and row["pixels"] == "uint8"]
    assert fitting[0] == "streamed"


def test_where_nothing_fits_the_smallest_is_named_with_what_it_lacks():
    nothing = list(found(12 * GB, machine_of(GB, GB)).values())
    assert not any(row["verdict"] == "fits" for row in nothing)
    assert advice(nothing) == (
        "no way fits; the smallest is streamed with uint8, codec zstd: "
        "needs 1.00 GB of memory, 900 MB usable; needs 5.76 GB of disk, 1.00 GB free"
    )


def test_frames_that_bytes_cannot_hold_are_not_offered_as_bytes():
    ways_of = found(12 * GB, SERVER, compressed={}, dtypes=("bfloat16", "float32"))
    assert {dtype for _, dtype, _ in ways_of} == {"bfloat16", "float32"}
    assert {name for name, dtype, _ in ways_of if dtype == "bfloat16"} == {
        "ram",
        "transforms at read",
        "mapped",
        "hybrid",
    }
