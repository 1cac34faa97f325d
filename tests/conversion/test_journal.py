"""What a stopped conversion has left is taken over whole, or not at all; a work folder has one owner."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.conversion import inputs
from outofcore.conversion.journal import Journal
from outofcore.conversion.run import ConversionResult
from outofcore.errors import DamagedStore, StoreError
from outofcore.store.shards import index_bytes
from outofcore.system.durable import WorkFolder
from tests.cases import long_cases
from tests.conversion.lines import after_unit, convert, stop, write_lines
from tests.store.synced import Synced

WORK = "lines.zarr.work"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal") / "raw"
    write_lines(folder, np.random.default_rng(5), lines=150)
    return folder


@pytest.fixture(scope="module")
def whole(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> ConversionResult:
    """The conversion without a stop."""
    return convert(raw, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def stopped(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a stopped conversion leaves: finished shards, unfinished ones, rejects, keys."""
    out = tmp_path_factory.mktemp("stopped")
    stop(raw, out, 15)
    return out


def state_in(journal: Path) -> dict[str, Any]:
    content = np.load(io.BytesIO(journal.read_bytes().split(b"\n", 1)[1]))["state"]
    return dict(json.loads(content.tobytes()))


def flipped(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x20
    path.write_bytes(content)


def gone(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def changed(path: Path) -> None:
    flipped(path, path.stat().st_size * 3 // 4)


FILES = (
    "journal",
    "keys",
    "sources",
    "rejects.csv",
    "store/train/number/c.0",
    "store/train/number/c.1.partial",
)


@pytest.mark.parametrize(("name", "code"), [*((name, errno.EIO) for name in FILES[:4]), (FILES[0], errno.EMFILE)])
def test_a_read_that_the_system_refuses_is_no_damage(
    raw: Path,
    whole: ConversionResult,
    stopped: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    code: int,
) -> None:
    """It ends the run, and the next one still has the units that were converted."""
    shutil.copytree(stopped, tmp_path / "out")
    refused, opened = tmp_path / "out" / WORK / name, io.open

    def refusing(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if path == refused and "r" in mode:
            raise OSError(code, os.strerror(code), str(path))
        return opened(path, mode, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(io, "open", refusing)
        with pytest.raises(OSError, match=os.strerror(code)):
            convert(raw, tmp_path / "out")
    found = convert(raw, tmp_path / "out")
    assert found.resumed_units > 0
    assert found.seal.digest == whole.seal.digest
    assert "damaged" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, damage) for name in FILES[:4] for damage in (gone, a_folder, changed)),  # each byte is tried below
        *((name, damage) for name in FILES[4:] for damage in (gone, a_folder, empty, cut, changed)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_was_damaged_is_converted_again(
    raw: Path,
    whole: ConversionResult,
    stopped: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    damage: Callable[[Path], None],
) -> None:
    out = tmp_path / "out"
    shutil.copytree(stopped, out)
    damage(out / WORK / name)
    found = convert(raw, out)
    told = capsys.readouterr().err
    assert found.resumed_units == 0
    assert found.seal.digest == whole.seal.digest
    assert found.figures == whole.figures
    assert sorted(path.name for path in out.iterdir()) == ["lines.zarr", "rejects.csv"]
    if (name, damage) == ("journal", gone):  # as after a kill before the first checkpoint
        assert told == ""
    else:
        assert "converting from the beginning" in told
        assert told.count("\n") == 1
        assert damage is not a_folder or "/" in name or f"({name}: {os.strerror(errno.EISDIR)})" in told


@pytest.mark.parametrize("name", ["journal", "keys", *long_cases("sources", "rejects.csv")])
def test_no_changed_or_missing_byte_of_the_journal_is_taken_over(stopped: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(stopped / WORK, tmp_path / "work")
    identity = state_in(folder / "journal")["identity"]
    content = (folder / name).read_bytes()
    with WorkFolder(folder, "") as work:
        journal = Journal(work, identity)
        assert journal.resume() is not None
        for place in range(0, len(content), 1 + len(content) // 500):
            flipped(folder / name, place)
            with pytest.raises(DamagedStore):
                journal.resume()
            (folder / name).write_bytes(content[:place])
            with pytest.raises(DamagedStore):
                journal.resume()
            (folder / name).write_bytes(content)
        (folder / name).write_bytes(content + b"x")
        if name == "journal":
            with pytest.raises(DamagedStore):
                journal.resume()
        else:  # what was appended after the checkpoint does not count
            assert journal.resume() is not None


@pytest.mark.parametrize("package", ["outofcore", "numba", "gigatoken"])
def test_another_version_of_the_package_or_an_engine_starts_afresh(
    raw: Path, whole: ConversionResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    stop(raw, tmp_path, 15)
    found = inputs.versions("lines")
    monkeypatch.setattr("outofcore.conversion.run.versions", lambda _: {**found, package: "99"})
    again = convert(raw, tmp_path)
    assert again.resumed_units == 0
    assert again.seal.digest == whole.seal.digest


def test_a_work_folder_belongs_to_one_process(raw: Path, whole: ConversionResult, tmp_path: Path) -> None:
    def convert_too() -> None:
        with pytest.raises(StoreError, match=rf"^{tmp_path}/lines\.zarr[^\n]*another process writes this store[^\n]*$"):
            convert(raw, tmp_path)

    assert convert(raw, tmp_path, watch=after_unit(0, convert_too)).seal.digest == whole.seal.digest


def test_a_killed_owner_leaves_the_work_folder_free(raw: Path, whole: ConversionResult, tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from tests.conversion.lines import convert\n"
        "convert(Path(sys.argv[1]), Path(sys.argv[2]), watch=lambda *_: os._exit(9))"
    )
    done = subprocess.run([sys.executable, "-c", program, raw, tmp_path], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 9
    assert (tmp_path / WORK).is_dir()
    assert convert(raw, tmp_path).seal.digest == whole.seal.digest


def test_a_conversion_killed_on_the_way_to_its_place_resumes(
    raw: Path, whole: ConversionResult, tmp_path: Path
) -> None:
    program = (
        "import os, sys; from pathlib import Path; from tests.conversion.lines import convert\n"
        "rename = Path.rename\n"
        "def killed(path, target): os._exit(9) if path.name == 'arriving' else rename(path, target)\n"
        "Path.rename = killed\n"
        "convert(Path(sys.argv[1]), Path(sys.argv[2]), checkpoint_seconds=0.0)"
    )
    done = subprocess.run([sys.executable, "-c", program, raw, tmp_path], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 9
    found = convert(raw, tmp_path)
    assert found.resumed_units > 0
    assert found.seal.digest == whole.seal.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.zarr", "rejects.csv"]


def test_what_a_killed_copy_left_is_removed_at_the_next_start(
    raw: Path, whole: ConversionResult, tmp_path: Path
) -> None:
    left = tmp_path / WORK / "arriving"
    stop(raw, tmp_path, 15)
    shutil.copytree(tmp_path / WORK / "store", left)
    seen: list[bool] = []
    assert convert(raw, tmp_path, watch=lambda *_: seen.append(left.exists())).seal.digest == whole.seal.digest
    assert seen
    assert not any(seen)


def test_workspaces_that_share_scratch_work_in_folders_of_their_own(
    raw: Path, whole: ConversionResult, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    inner: list[ConversionResult] = []
    watch = after_unit(0, lambda: inner.append(convert(raw, tmp_path / "two", scratch=scratch)))
    outer = convert(raw, tmp_path / "one", watch=watch, scratch=scratch)
    assert inner[0].seal.digest == outer.seal.digest == whole.seal.digest
    assert list(scratch.iterdir()) == []


def test_all_that_a_checkpoint_counts_is_on_the_disk_before_it(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records what is synced: when a journal gets its name, all bytes and names that it counts have been."""
    work, checkpoints = tmp_path / WORK, 0
    synced, replace = Synced(monkeypatch), Path.replace

    def check(path: Path, size: int) -> None:
        assert synced.size(path) >= size, f"{path} was not synced"
        assert path.name in synced.names(path.parent), f"the name of {path} was not synced"

    def renamed(path: Path, target: Path) -> Path:
        nonlocal checkpoints
        assert synced.size(path) == path.stat().st_size, f"{path} was renamed before it was synced"
        if target.name == "journal":
            checkpoints += 1
            state = state_in(path)
            for name in ("rejects", "keys", "sources"):
                file = work / (name + ".csv" * (name == "rejects"))
                assert synced.size(file) >= state[name][0] > 0
            for table, facts in state["tables"].items():
                for name, (size, _) in facts["files"].items():
                    check(work / "store" / name, size)
                for field, lengths in facts["lengths"].items():
                    check(work / "store" / table / field / f"c.{facts['shard']}.partial", index_bytes(4) + sum(lengths))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", renamed)
    stop(raw, tmp_path, 15)
    assert checkpoints >= 10
    assert any(path.name == "c.0" for path in work.rglob("*"))
