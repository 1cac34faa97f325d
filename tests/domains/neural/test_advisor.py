from __future__ import annotations

import pytest

from outofcore.domains.neural.advisor import MachineFacts, SessionSize, advice, total_bytes, ways

GB = 10**9
# A server of 504 GB with 258 GB of disk free.
SERVER = MachineFacts(memory=504 * GB, disk=258 * GB)


def sizes(total):
    pixels = 36 * 64
    return [SessionSize(f"s{number}", total // 20 // pixels, pixels, 0) for number in range(20)]


def by_name(found):
    return {(way.name, way.dtype): way for way in found}


def test_the_figures_of_a_known_server():
    sessions = sizes(226 * GB)
    assert total_bytes(sessions, "float32") == pytest.approx(904 * GB, rel=1e-6)
    found = by_name(ways(sessions, SERVER, pool=GB, compressed=0.5))
    assert not found["ram", "float32"].fits
    assert "needs 1.08 TB of disk, 258 GB free" in found["mapped", "float32"].reason
    assert not found["mapped", "float32"].fits
    assert not found["ram", "bfloat16"].fits  # 452 GB would fit the memory, not the disk that it is read from
    assert "memory" not in found["ram", "bfloat16"].reason.split(";")[0]
    assert not found["mapped", "uint8"].fits  # 226 GB and a margin of 20 %
    assert found["streamed", "uint8"].fits
    assert found["streamed", "uint8"].disk == pytest.approx(135.6 * GB, rel=1e-3)
    assert "streamed with uint8" in advice(tuple(found.values()))


def test_the_larger_disk_takes_bytes_and_memory_takes_bfloat16():
    found = by_name(ways(sizes(226 * GB), MachineFacts(memory=504 * GB, disk=1400 * GB), pool=GB))
    assert found["ram", "uint8"].fits
    assert found["mapped", "uint8"].fits
    assert found["ram", "bfloat16"].fits
    assert found["mapped", "float32"].fits
    assert not found["ram", "float32"].fits
    assert "needs 905 GB of memory" in found["ram", "float32"].reason
    assert ("streamed", "uint8") not in found


def test_a_small_machine_streams_or_holds_a_part():
    found = by_name(ways(sizes(12 * GB), MachineFacts(memory=8 * GB, disk=100 * GB), pool=GB // 2, compressed=0.3))
    assert not found["ram", "uint8"].fits
    assert found["hybrid", "uint8"].fits
    assert found["hybrid", "uint8"].memory <= 0.9 * 8 * GB
    assert "56% held in memory" in found["hybrid", "uint8"].reason
    nothing = ways(sizes(12 * GB), MachineFacts(memory=GB, disk=GB), pool=GB // 2)
    assert not any(way.fits for way in nothing)
    assert advice(nothing).startswith("no way fits; the smallest is")
