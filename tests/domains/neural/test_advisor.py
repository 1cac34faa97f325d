from __future__ import annotations

import pytest

from outofcore.domains.neural.advisor import Compressed, MachineFacts, Reads, SessionSize, advice, total_bytes, ways

GB = 10**9
# A server of 504 GB with 258 GB of disk free, and its 20 sessions of 226 GB.
SERVER = MachineFacts(memory=504 * GB, disk=258 * GB)
PIXELS = 36 * 64
READS = Reads(train=0.9, val=0.05, pools=GB, batches=0)
MEASURED = (Compressed("uint8", "lz4", 0.55, 2 * GB), Compressed("uint8", "zstd", 0.4, GB))


def sizes(total):
    return [SessionSize(f"s{number}", total // 20 // PIXELS, PIXELS, 0) for number in range(20)]


def found(total, machine, compressed=MEASURED, **more):
    return {(way.name, way.dtype, way.codec): way for way in ways(sizes(total), machine, READS, compressed, **more)}


def test_a_disk_of_258_gb_refuses_float32_and_is_offered_bytes():
    assert total_bytes(sizes(226 * GB), "float32") == pytest.approx(904 * GB, rel=1e-6)
    ways_of = found(226 * GB, SERVER)
    wide = ways_of["mapped", "float32", "none"]
    assert not wide.fits
    assert wide.missing == ("needs 1.08 TB of disk, 258 GB free",)
    assert ways_of["mapped", "uint8", "none"].missing == ("needs 271 GB of disk, 258 GB free",)  # the margin of 20 %
    offered = ways_of["streamed", "uint8", "lz4"]
    assert offered.fits
    assert offered.store == pytest.approx(0.55 * 226 * GB, rel=1e-3)
    assert offered.disk == pytest.approx(1.2 * offered.store, rel=1e-6)
    assert offered.decoded_per_second == 2 * GB
    assert "source.stimulus_dtype uint8, store.codec lz4" in offered.settings
    assert advice(tuple(ways_of.values())).startswith("ram with uint8, codec zstd: residency ram")


def test_bfloat16_in_memory_needs_a_disk_to_be_read_from():
    small = found(226 * GB, SERVER)["ram", "bfloat16", "none"]
    assert small.missing == ("needs 542 GB of disk, 258 GB free",)
    large = found(226 * GB, MachineFacts(memory=504 * GB, disk=1400 * GB))
    assert large["ram", "bfloat16", "none"].fits
    assert large["ram", "bfloat16", "none"].memory == pytest.approx(0.95 * 452 * GB, rel=1e-2)
    assert large["mapped", "float32", "none"].fits
    assert large["ram", "float32", "none"].missing == ("needs 859 GB of memory, 454 GB usable",)


def test_the_copy_that_a_cache_makes_is_counted():
    once = found(226 * GB, MachineFacts(memory=64 * GB, disk=258 * GB))
    twice = found(226 * GB, MachineFacts(memory=64 * GB, disk=258 * GB, copies=2))
    assert once["streamed", "uint8", "lz4"].fits
    assert twice["streamed", "uint8", "lz4"].missing == ("needs 298 GB of disk, 258 GB free",)
    assert twice["streamed", "uint8", "zstd"].fits


def test_a_small_machine_streams_or_holds_a_part():
    machine = MachineFacts(memory=8 * GB, disk=100 * GB)
    ways_of = found(12 * GB, machine)
    assert not ways_of["ram", "uint8", "zstd"].fits
    hybrid = ways_of["hybrid", "uint8", "zstd"]
    assert hybrid.fits
    assert hybrid.memory == machine.usable_memory
    assert next(way.name for way in ways_of.values() if way.fits and way.dtype == "uint8") == "streamed"


def test_where_nothing_fits_the_smallest_is_named_with_what_it_lacks():
    nothing = ways(sizes(12 * GB), MachineFacts(memory=GB, disk=GB), READS, MEASURED)
    assert not any(way.fits for way in nothing)
    assert advice(nothing) == (
        "no way fits; the smallest is streamed with uint8, codec zstd: "
        "needs 1.00 GB of memory, 900 MB usable; needs 5.76 GB of disk, 1.00 GB free"
    )


def test_frames_that_bytes_cannot_hold_are_not_offered_as_bytes():
    ways_of = found(12 * GB, SERVER, compressed=(), dtypes=("bfloat16", "float32"))
    assert {dtype for _, dtype, _ in ways_of} == {"bfloat16", "float32"}
    assert {name for name, dtype, _ in ways_of if dtype == "bfloat16"} == {
        "ram",
        "transforms at read",
        "mapped",
        "hybrid",
    }
