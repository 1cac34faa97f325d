"""Disks that run full under real stages and the real DVC: refused, or stopped in one line; never a false success."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from outofcore.domains.sections import StoreSection
from outofcore.errors import OutOfCoreError, SpaceError
from outofcore.space.dvc_cache import Committed, committed
from outofcore.space.guard import Guard
from outofcore.store.verify import verify
from tests.conversion.lines import Lines, LinesSection, convert, write_lines
from tests.pipeline.workplace import make_workplace
from tests.space.conftest import MIB, Disk, disk, dvc, no_settings_of_the_user, project, used

__all__ = ["disk", "no_settings_of_the_user"]

pytestmark = [pytest.mark.apart, pytest.mark.root, pytest.mark.timeout(900)]
KINDS = ("ext4", "xfs", "btrfs")
SIZES = {"ext4": 64, "xfs": 320, "btrfs": 128}


def fill(folder: Path, left: int) -> Path:
    """Take all the room of a filesystem but so many bytes."""
    ballast = folder / "ballast"
    taken = ballast.stat().st_size if ballast.exists() else 0
    facts = shutil.disk_usage(folder)
    size = max(0, taken + facts.free - left)
    ballast.touch()
    for _ in range(64):  # a btrfs promises more than it has
        if not subprocess.run(["fallocate", "-l", str(max(size, 1)), str(ballast)], check=False).returncode:
            break
        size -= MIB // 2
    return ballast


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Numbers in lines: a dozen shards of each field."""
    write_lines(tmp_path / "raw", np.random.default_rng(5), 2500)
    return tmp_path / "raw"


def run(raw: Path, out: Path) -> str:
    """Convert, with many checkpoints; the digest."""
    section = LinesSection(store=StoreSection(chunk_rows=256, shard_rows=1024))
    with Guard("lines", 0, 0).writing(out / "lines.zarr"):
        return convert(raw, out, Lines(unit_bytes=4000), section, checkpoint_seconds=0.05).seal.digest


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_full_at_any_moment_leaves_no_store_and_the_work_goes_on(
    disk: Disk, raw: Path, tmp_path: Path, kind: str
) -> None:
    expected = run(raw, tmp_path / "whole")
    size = sum(path.stat().st_size for path in (tmp_path / "whole").rglob("*") if path.is_file())
    small, dice = disk(kind, SIZES[kind]), random.Random(2)
    stopped = 0
    # At a boundary of shards the store's size grows by whole shards; other moments lie at random.
    for left in (*(size * part // 12 for part in range(6)), *(dice.randrange(size // 2) for _ in range(6))):
        out = small / "out"
        ballast = fill(small, left)
        told = ""
        try:
            run(raw, out)
        except SpaceError as error:
            told = str(error)
        if told:
            stopped += 1
            assert told.startswith(f"{small} ({kind}): it is full")
            assert "\n" not in told
            assert not (out / "lines.zarr").exists()
        else:
            assert verify(out / "lines.zarr").problems == ()
        ballast.unlink()
        assert run(raw, out) == expected
        assert verify(out / "lines.zarr").problems == ()
        shutil.rmtree(out)
    assert stopped >= 4


def test_an_error_of_the_disk_while_a_shard_ends_is_no_store(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device reports an error at each boundary of shards in turn, as a dying disk does."""
    from outofcore.store.shards import ShardFile

    expected = run(raw, tmp_path / "whole")
    shards = len(list((tmp_path / "whole").rglob("c.*")))
    finish, count = ShardFile.finish, 0

    def failing(shard: ShardFile) -> tuple[int, str] | None:
        nonlocal count
        count += 1
        if count == number:
            raise OSError(5, "Input/output error")
        return finish(shard)

    monkeypatch.setattr(ShardFile, "finish", failing)
    for number in range(1, min(12, 1 + shards)):
        count = 0
        out = tmp_path / f"out{number}"
        with pytest.raises(OSError, match="Input/output error"):
            run(raw, out)
        assert not (out / "lines.zarr").exists()
        count = -1000
        assert run(raw, out) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", ["hardlink,symlink", "symlink", "copy", "reflink,copy"])
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_what_dvc_could_not_commit_is_never_taken_for_done(
    disk: Disk, tmp_path: Path, kind: str, link: str, *, apart: bool
) -> None:
    """DVC itself says that all went well when its cache is full; 'outofcore committed' does not."""
    small = disk(kind, SIZES[kind])
    place = tmp_path / "p" if apart else small / "p"
    root = project(place, f"[cache]\n    type = {link}\n    dir = {small / 'cache'}\n", files=6)
    # Room for the store, and for half of DVC's copy; with hard links it needs none.
    fill(small, (3 if apart else 9) * MIB)
    ended = dvc(root, "repro")
    told = ""
    try:
        found = committed(root)
    except OutOfCoreError as error:
        told = str(error)
    else:
        told = " ".join(found.lacking + found.absent)
    whole = used(small) and not told and (root / "dvc.lock").exists()
    if ended.returncode == 0 and whole:
        again = dvc(root, "status")
        assert "up to date" in again.stdout
        return
    assert ended.returncode or told, ended.stdout
    (small / "ballast").unlink()
    (root / "dvc.lock").unlink(missing_ok=True)
    assert dvc(root, "repro").returncode == 0
    assert committed(root) == Committed((), ())


def test_figures_that_find_no_room_are_one_line(disk: Disk, tmp_path: Path) -> None:
    place = make_workplace(tmp_path / "place", "chess", files=1)
    small = disk("tmpfs", 1)
    (place.folder / "metrics").symlink_to(small)
    fill(small, 0)
    told = place.run("convert", code=2)
    assert told.startswith(f"error: {small} (tmpfs): it is full, ")
    assert "what was made is whole; make room and run the same command again" in told
    assert told.count("\n") == 1
    assert verify(place.store).problems == ()
    (small / "ballast").unlink()
    place.run("convert")
    assert json.loads((small / "chess/convert.json").read_text())["found"] > 0


def test_training_asks_first_and_a_full_disk_keeps_the_last_checkpoint(disk: Disk, tmp_path: Path) -> None:
    place = make_workplace(tmp_path / "place", "neural", files=1)
    place.run("convert")
    small = disk("ext4", 32)
    (place.folder / "models").symlink_to(small)
    place.run("train", OUTOFCORE_WORKERS="1")
    expected = (small / "neural/model.pt").read_bytes()
    shutil.rmtree(small / "neural")
    fill(small, 16_000)
    told = place.run("train", code=2, OUTOFCORE_DISK_RESERVE="0")
    assert told.startswith(f"error: not enough room, nothing was written: {small} (ext4) needs ")
    assert "checkpoints" in told
    assert "a smaller model (neural.train.preset)" in told
    assert told.count("\n") == 1
    # Somebody else takes the room after it was asked for.
    (small / "ballast").unlink()
    running = place.start("train", 0.001, OUTOFCORE_WORKERS="1", OUTOFCORE_DISK_RESERVE="0")
    while not (small / "neural.partial/checkpoint.pt").exists() and running.poll() is None:
        time.sleep(0.005)
    fill(small, 4096)
    told = running.communicate(timeout=280)[0]
    assert running.returncode == 2, told
    assert told.splitlines()[-1].startswith(f"error: {small} (ext4): it is full, ")
    assert "the last checkpoint is kept; make room and run the same command again" in told
    assert "Traceback" not in told
    assert not (small / "neural").exists()
    (small / "ballast").unlink()
    place.run("train", OUTOFCORE_WORKERS="1")
    assert (small / "neural/model.pt").read_bytes() == expected
    assert json.loads((place.folder / "metrics/neural/train.json").read_text())["steps"] > 0
