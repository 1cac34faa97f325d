"""The guard on real, small disks: refused before the first byte, stopped in one line."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from outofcore.errors import SpaceError, StoreError
from outofcore.settings.sizes import format_bytes
from outofcore.space.dvc_cache import REMOVE_OLD, find_cache
from outofcore.space.forecast import Need, Purpose, store_needs
from outofcore.space.guard import Guard
from outofcore.space.links import commit_of
from outofcore.store.reader import open_store
from outofcore.store.schema import Field, Layout, Schema
from outofcore.store.writer import StoreWriter
from tests.space.conftest import MIB, Disk, project, used

GIB = 2**30
SCHEMA = Schema(rows=(Field(name="noise", dtype="uint8", shape=(256,), doc="random bytes"),), sequences=())
LAYOUT = Layout(codec="none", chunk_rows=256, shard_rows=1024)


def write(work: Path, guard: Guard, shards: int, *, held: bool = False) -> int:
    """Write a store of shards of 256 KiB, watched between them; returns the shards that were handed over.

    When it is stopped, what waits is written, as in a conversion; nothing is written before if it is ``held``.
    """
    noise, released = np.random.default_rng(0), threading.Event()
    with ThreadPoolExecutor(1) as encoders, guard.writing(work):
        if held:
            encoders.submit(released.wait)
        writer = StoreWriter(work, {"": SCHEMA}, LAYOUT, ("train",), encoders)
        try:
            for _ in range(shards):
                rows = {"noise": noise.integers(0, 256, (1024, 256), np.uint8)}
                writer.append("", "train", rows, {"length": np.array([1024])})
                guard.watch(writer.bytes_written(), writer.bytes_waiting())
        except SpaceError:
            released.set()
            writer.snapshot()
            raise
        finally:
            released.set()
            writer.abandon()
    return shards


def test_what_fits_is_let_through_and_told(tmp_path: Path) -> None:
    guard = Guard("chess", margin=0.2, reserve=0)
    (found,) = guard.require([Need(tmp_path, Purpose.STORE, 1000)])
    assert (found.bytes, found.margin, found.asked) == (1000, 200, 1200)
    guard.watch(1000)


@pytest.mark.root
def test_a_disk_too_small_is_refused_before_the_first_byte(disk: Disk) -> None:
    small = disk("ext4", 16)
    before = used(small)
    guard = Guard("chess", margin=0.2, reserve=GIB)
    with pytest.raises(SpaceError) as refused:
        guard.require([Need(small / "stores" / "chess.zarr", Purpose.STORE, 14 * MIB)])
    assert used(small) == before
    message = str(refused.value)
    assert "\n" not in message
    assert message.startswith(f"not enough room, nothing was written: {small} (ext4) needs 18.")
    assert "(store 14.7 MB, margin 2.94 MB, reserve" in message
    assert re.search(r", 1[\d.]+ MB are free\. Ways out", message)
    assert "codec zstd in chess.store, stricter chess.filters" in message
    assert "the project on another disk" in message
    assert f"stores, models and raw files that are not needed removed from {small}" in message
    assert "dvc" not in message
    (small / ".dvc").mkdir()
    with pytest.raises(SpaceError) as refused:
        guard.require([Need(small / "stores" / "chess.zarr", Purpose.STORE, 14 * MIB)])
    assert f"old versions removed, if the cache lies on {small}: {REMOVE_OLD}" in str(refused.value)


@pytest.mark.root
def test_what_dvc_will_copy_counts_where_its_cache_lies(disk: Disk, tmp_path: Path) -> None:
    small = disk("tmpfs", 16)
    root = project(tmp_path / "p", f"[cache]\n    type = copy\n    dir = {small / 'cache'}\n")
    cache = find_cache(root)
    assert cache is not None
    needs = store_needs(root / "out.zarr", 15 * MIB, commit_of(root / "out.zarr", cache))
    with pytest.raises(SpaceError) as refused:
        Guard("go", margin=0.2, reserve=0).require(needs)
    message = str(refused.value)
    assert (
        f"{small} (tmpfs) needs 18.9 MB (DVC's copy 15.7 MB, margin 3.15 MB, reserve 0 B), 16.8 MB are free" in message
    )
    assert "the cache on another disk ('dvc cache dir --local FOLDER')" in message
    assert message.count(" needs ") == 1


@pytest.mark.root
def test_the_same_disk_for_store_and_copy_is_asked_for_both(disk: Disk) -> None:
    small = disk("tmpfs", 16)
    linked = project(small / "linked", "[cache]\n    type = hardlink,symlink\n")
    copied = project(small / "copied", "[cache]\n    type = copy\n")
    asked = []
    for root in (linked, copied):
        cache = find_cache(root)
        assert cache is not None
        needs = store_needs(root / "out.zarr", 6 * MIB, commit_of(root / "out.zarr", cache))
        (found,) = Guard("text", margin=0, reserve=0).require(needs)
        asked.append(found.bytes)
    assert asked == [6 * MIB, 12 * MIB]
    with pytest.raises(SpaceError, match=r"links in place of DVC's copy \('dvc config cache\.type hardlink,symlink'\)"):
        Guard("text", margin=1, reserve=0).require(needs)
    # where links are asked for and the disk has none, as exFAT
    needs = [Need(linked / "out.zarr", purpose, 9 * MIB) for purpose in (Purpose.STORE, Purpose.DVC_COPY)]
    with pytest.raises(SpaceError, match=r"Ways out: .*the cache on another disk") as refused:
        Guard("text", margin=0, reserve=0).require(needs)
    assert "cache.type" not in str(refused.value)


@pytest.mark.root
@pytest.mark.parametrize("held", [False, True])
def test_a_disk_that_fills_while_writing_stops_it_between_shards(disk: Disk, *, held: bool) -> None:
    small = disk("tmpfs", 8)
    work = small / "chess.zarr.work"
    guard = Guard("chess", margin=0, reserve=MIB)
    (found,) = guard.require([Need(work, Purpose.STORE, 6 * MIB)])
    (small / "of somebody else").write_bytes(bytes(4 * MIB))
    with pytest.raises(SpaceError) as stopped:
        write(work, guard, shards=16, held=held)
    message = str(stopped.value)
    assert "\n" not in message
    assert message.startswith(f"{small} (tmpfs) is nearly full: ")
    assert message.endswith("finished shards are kept; make room and run the same command again to resume")
    shards = sorted(work.rglob("c.*"))
    assert len(shards) > 8
    assert {shard.stat().st_size for shard in shards} == {shards[0].stat().st_size}
    # All but the last shard, which shows that the disk is too small, leave the reserve as it is.
    assert found.reserve - shards[0].stat().st_size < found.filesystem.free() < found.reserve
    with pytest.raises(StoreError, match="is not a sealed store"):
        open_store(work)


@pytest.mark.root
def test_room_for_the_copy_that_dvc_makes_later_is_kept(disk: Disk) -> None:
    small = disk("tmpfs", 16)
    root = project(small / "p", "[cache]\n    type = copy\n")
    cache = find_cache(root)
    assert cache is not None
    guard = Guard("chess", margin=0, reserve=0)
    guard.require(store_needs(root / "out.zarr", 4 * MIB, commit_of(root / "out.zarr", cache)))
    with pytest.raises(SpaceError, match=r"8\.\d+ MB must stay free \(DVC's copy 8.*, reserve 0 B"):
        write(root / "out.zarr.work", guard, shards=60)
    assert used(small) < 8.8 * MIB


@pytest.mark.root
def test_room_for_bringing_the_store_to_its_place_is_kept(disk: Disk) -> None:
    scratch, final = disk("tmpfs", 32), disk("tmpfs", 8)
    guard = Guard("chess", margin=0, reserve=0)
    guard.require(store_needs(final / "a.zarr", 4 * MIB, None, scratch / "a.zarr.work"))
    with pytest.raises(SpaceError, match=rf"{final} \(tmpfs\) is nearly full: .* \(store 8\.\d+ MB, reserve 0 B\)"):
        write(scratch / "a.zarr.work", guard, shards=60)
    assert used(final) == 0


@pytest.mark.root
@pytest.mark.parametrize(
    ("here", "there", "copies", "grows"),
    [
        ([Purpose.STORE], [], 0, True),
        ([Purpose.STORE, Purpose.DVC_COPY], [], 1, True),
        ([Purpose.DVC_COPY], [Purpose.STORE], 1, False),
        ([Purpose.WORK], [Purpose.STORE], 0, True),
        ([Purpose.STORE], [Purpose.WORK], 1, False),
        ([Purpose.STORE, Purpose.DVC_COPY], [Purpose.WORK], 2, False),
    ],
)
def test_bytes_that_wait_never_use_up_the_reserve(
    disk: Disk, here: list[Purpose], there: list[Purpose], copies: int, *, grows: bool
) -> None:
    small, large = disk("tmpfs", 16), disk("tmpfs", 64)
    guard = Guard("chess", margin=0, reserve=MIB // 2)
    needs = [*(Need(small, purpose, 0) for purpose in here), *(Need(large, purpose, 0) for purpose in there)]
    demand = guard.require(needs)[0]
    room = 16 * MIB - demand.reserve
    for written in (0, MIB, 3 * MIB):
        waiting = (room - copies * written) // (copies + grows)
        guard.watch(written, waiting)
        with pytest.raises(SpaceError, match=rf"^{small} ") as stopped:
            guard.watch(written, waiting + 1)
        told = f"16.8 MB are free, up to {format_bytes(waiting + 1)} are still to be written, "
        assert (told in str(stopped.value)) == grows


@pytest.mark.root
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_full_disk_is_one_line(disk: Disk, kind: str) -> None:
    small = disk(kind, 8)
    guard = Guard("chess", margin=0, reserve=0)
    with pytest.raises(SpaceError) as stopped:
        write(small / "chess.zarr.work", guard, shards=64)
    message = str(stopped.value)
    assert "\n" not in message
    assert message.startswith(f"{small} ({kind}): it is full, ")
    assert isinstance(stopped.value.__cause__, OSError)


@pytest.mark.root
def test_a_disk_without_inodes_is_told_as_such(disk: Disk) -> None:
    small = disk("tmpfs", 8)
    subprocess.run(["mount", "-o", "remount,nr_inodes=2", str(small)], check=True)
    (small / "last").touch()
    with pytest.raises(SpaceError, match="no inode is free"), Guard("", margin=0, reserve=0).writing(small):
        (small / "one more").touch()


def test_a_quota_is_told_as_such(tmp_path: Path) -> None:
    with (
        pytest.raises(SpaceError, match="quota is used up"),
        Guard("", margin=0, reserve=0).writing(tmp_path),
    ):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), Guard("", margin=0, reserve=0).writing(tmp_path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
