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


def test_a_disk_of_258_gb_refuses_float32_and_is_offered_bytes():
    ways_of = found(226 * GB, SERVER)
    wide = ways_of["mapped", "float32", "none"]
    assert wide["verdict"] == "needs 1.08 TB of disk, 258 GB free"
    assert ways_of["mapped", "uint8", "none"]["verdict"] == "needs 271 GB of disk, 258 GB free"  # the margin of 20 %
    offered = ways_of["streamed", "uint8", "lz4"]
    assert offered["verdict"] == "fits"
    assert offered["store"] == pytest.approx(0.55 * 226 * GB, rel=1e-3)
    assert offered["disk needed"] == pytest.approx(1.2 * offered["store"], rel=1e-6)
    assert "source.stimulus_dtype uint8, store.codec lz4" in offered["settings"]
    assert advice(tuple(ways_of.values())).startswith("ram with uint8, codec zstd: residency ram")


def test_bfloat16_in_memory_needs_a_disk_to_be_read_from():
    small = found(226 * GB, SERVER)["ram", "bfloat16", "none"]
    assert small["verdict"] == "needs 542 GB of disk, 258 GB free"
    large = found(226 * GB, machine_of(504 * GB, 1400 * GB))
    assert large["ram", "bfloat16", "none"]["verdict"] == "fits"
    assert large["ram", "bfloat16", "none"]["memory"] == pytest.approx(0.95 * 452 * GB, rel=1e-2)
    assert large["mapped", "float32", "none"]["verdict"] == "fits"
    assert large["ram", "float32", "none"]["verdict"] == "needs 859 GB of memory, 454 GB usable"


def test_the_copy_that_a_cache_makes_is_counted():
    once = found(226 * GB, machine_of(64 * GB, 258 * GB))
    twice = found(226 * GB, machine_of(64 * GB, 258 * GB, 2))
    assert once["streamed", "uint8", "lz4"]["verdict"] == "fits"
    assert twice["streamed", "uint8", "lz4"]["verdict"] == "needs 298 GB of disk, 258 GB free"
    assert twice["streamed", "uint8", "zstd"]["verdict"] == "fits"


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
