"""What is read of a store in an object storage is kept on this machine: shared, within a limit, never in the way."""

from __future__ import annotations

import ctypes
import errno
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
import zarr
from typer.testing import CliRunner

from outofcore.cli import app
from outofcore.errors import BudgetError, DamagedStore, ParamsError
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from outofcore.settings.sizes import parse_bytes
from outofcore.store import remote_cache
from outofcore.store.codecs import CodecName
from outofcore.store.files import IN_MEMORY, Ranges, read_checked
from outofcore.store.reader import Store, open_store
from outofcore.store.remote import RemoteFiles
from outofcore.store.remote_cache import CachedFiles
from outofcore.store.schema import Layout
from outofcore.store.verify import verify
from tests.pipeline.power_loss import CALLS, Recorded, disk_after
from tests.store.conftest import write_store
from tests.store.object_storage import Troubles, put_objects, serve_badly, upload

pytestmark = pytest.mark.xdist_group("object storage")

GAMES = [[40, 300, 77] for _ in range(12)]
LAYOUT = Layout(codec="none", chunk_rows=64, shard_rows=512)
OPTIONS: dict[str, Any] = {"memory": "128MiB", "residency": "streamed", "shuffle": Shuffle(pool_blocks=8), "threads": 2}
READER = """
import sys
import numpy as np
from outofcore.store import remote_cache
from outofcore.store.reader import open_store
remote_cache.PIECE = 4096
print("ready", flush=True)
sys.stdin.readline()
for name, array in open_store(sys.argv[1]).rows("train").fields.items():
    np.save(f"{sys.argv[2]}/{name}.npy", array.read())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's folder; pieces are those of a small disk."""
    monkeypatch.setattr("outofcore.store.remote_cache.PIECE", 4096)
    monkeypatch.setenv("OUTOFCORE_S3_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OUTOFCORE_DISK_RESERVE", "0")
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store on disk; tests leave it as it is."""
    return write_store(tmp_path_factory.mktemp("local") / "a.zarr", batches=GAMES, layout=LAYOUT)


@pytest.fixture
def watched(
    local: Path, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Troubles]]:
    """The address of a copy of the store, and the server in between."""
    url = upload(local, endpoint, tmp_path.name)
    with serve_badly(endpoint) as (bad, troubles):
        monkeypatch.setenv("AWS_ENDPOINT_URL", bad)
        yield url, troubles


def shards(troubles: Troubles) -> int:
    """Requests for content of shards since the last call."""
    found = sum("/c." in path for path in troubles.asked)
    troubles.asked.clear()
    return found


@cache
def expected(local: Path) -> dict[str, Any]:
    """The rows of the store on disk, as zarr-python reads them."""
    group = zarr.open_group(local, mode="r")["train"]
    return {name: group[name][:] for name in ("boards", "move", "clock")}


def assert_rows(store: Store, local: Path) -> None:
    for name, values in expected(local).items():
        np.testing.assert_array_equal(store.rows("train")[name].read(), values)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def on_disk(folder: Path) -> int:
    """Bytes that the system says a folder takes."""
    return 1024 * int(subprocess.run(["du", "-sk", folder], capture_output=True, check=True).stdout.split()[0])


def cached_files(store: Store) -> CachedFiles:
    files = store.rows("train")["move"].files
    assert isinstance(files, CachedFiles)
    return files


@pytest.mark.parametrize("codec", get_args(CodecName))
def test_the_second_epoch_comes_from_this_machine(
    codec: str, folder: Path, make_store: Callable[..., Path], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = make_store("b.zarr", batches=GAMES, layout=Layout(codec=codec, chunk_rows=64, shard_rows=512))
    url = upload(local, endpoint, f"{local.parent.name}/{codec}")
    with serve_badly(endpoint) as (bad, troubles):
        monkeypatch.setenv("AWS_ENDPOINT_URL", bad)
        near, far = loader(local, "train", 100, **OPTIONS), loader(url, "train", 100, **OPTIONS)
        for epoch in range(2):
            for ours, theirs in zip(near, far, strict=True):
                assert all(torch.equal(ours[name], theirs[name]) for name in ours)
            assert bool(shards(troubles)) is (epoch == 0)
        again = open_store(url)
        assert_rows(again, local)
        copied = pickle.loads(pickle.dumps(again.rows("train")["move"]))
        np.testing.assert_array_equal(copied.read(), expected(local)["move"])
        assert shards(troubles) == 0
    assert names_in(folder) == [f"{again.digest}.pieces", remote_cache.MARKER]


def test_nothing_is_kept_unless_it_is_asked_for(
    watched: tuple[str, Troubles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = watched
    monkeypatch.chdir(tmp_path)
    before = names_in(tmp_path)
    open_store(url).rows("train")["move"].read()
    assert names_in(tmp_path) == before
    Path("machine.yaml").write_text("s3_cache: kept\ns3_cache_limit: 1MB\n")
    open_store(url).rows("train")["move"].read()
    assert on_disk(tmp_path / "kept") > 4096


def test_any_range_has_the_bytes_of_the_shard(
    folder: Path, local: Path, watched: tuple[str, Troubles], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where some of its pieces are kept, and others were not any more."""
    url, _ = watched
    monkeypatch.setenv("OUTOFCORE_S3_CACHE_LIMIT", "150kB")
    files, generator = cached_files(open_store(url)), np.random.default_rng(0)
    names = [path.relative_to(local).as_posix() for path in sorted(local.rglob("c.*")) if path.is_file()]
    sources = set()
    for _ in range(30):
        wanted = []
        for name in generator.choice(names, 3, replace=False):
            size = (local / name).stat().st_size
            cuts = np.unique(generator.integers(0, size + 1, 8))
            wanted.append(Ranges(name, cuts[:-1], np.diff(cuts)))
        for ranges, found in zip(wanted, files.open_ranges(wanted), strict=True):
            raw = (local / ranges.name).read_bytes()
            source_of = np.broadcast_to(found.source, len(ranges.offsets)).tolist()
            each = zip(ranges.offsets.tolist(), ranges.lengths.tolist(), found.places.tolist(), source_of, strict=True)
            sources.update(source_of)
            for offset, length, place, source in each:
                content = ctypes.string_at(place, length) if source == IN_MEMORY else os.pread(source, length, place)
                assert content == raw[offset : offset + length]
                assert files.read(ranges.name, offset, length) == raw[offset : offset + length]
    assert len(sources) == 2
    assert on_disk(folder) > 4096
    with pytest.raises(DamagedStore, match="ends at"):
        files.read(names[0], 0, (local / names[0]).stat().st_size + 1)


def test_neighbours_are_requested_together_and_each_piece_once(
    folder: Path, local: Path, watched: tuple[str, Troubles], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By all threads of a process, and no more at a time than the budget counts."""
    url, _ = watched
    monkeypatch.setattr("outofcore.store.remote_cache.HELD", 6)
    runs: list[tuple[str, int, int]] = []
    held: list[int] = [0]
    fetch, lock = RemoteFiles._fetch, threading.Lock()

    def watch(files: RemoteFiles, run: tuple[str, int, int]) -> object:
        with lock:
            runs.append(run)
            held.append(held[-1] + run[2] - run[1])
        time.sleep(0.01)
        content = fetch(files, run)
        with lock:
            held.append(held[-1] - (run[2] - run[1]))
        return content

    stores = [open_store(url) for _ in range(3)]
    monkeypatch.setattr(RemoteFiles, "_fetch", watch)
    threads = [threading.Thread(target=assert_rows, args=(store, local)) for store in stores for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own = [run for run in runs if "/c." in run[0]]
    assert len({run[:2] for run in own}) == len(own)
    names = [f"train/boards/c.{number}.0" for number in range(10)]
    assert {name: sum(stop - start for other, start, stop in own if other == name) for name in names} == {
        name: (local / name).stat().st_size for name in names
    }
    assert max(held) <= 6 * 4096 + max(stop - start for name, start, stop in runs if "/c." not in name)
    remote_cache.clear(folder)
    files = cached_files(open_store(url))
    runs.clear()
    cuts = np.arange(0, (local / names[0]).stat().st_size, 64)
    files.open_ranges([Ranges(names[0], cuts[:-1], np.diff(cuts))])
    assert len(runs) == 1


def test_the_budget_counts_what_is_held_while_pieces_come(
    folder: Path, watched: tuple[str, Troubles], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = watched
    least = []
    for _ in range(2):
        with pytest.raises(BudgetError, match="the least that works is") as told:
            loader(url, "train", 10, **{**OPTIONS, "memory": 1000})
        least.append(parse_bytes(re.findall(r"the least that works is (.*?B)", str(told.value))[0]))
        monkeypatch.delenv("OUTOFCORE_S3_CACHE", raising=False)
    assert least[0] - least[1] == pytest.approx(remote_cache.HELD * 4096, rel=0.05)
    assert folder


def test_processes_share_it_even_one_that_was_killed(
    folder: Path, local: Path, watched: tuple[str, Troubles], tmp_path: Path
) -> None:
    url, troubles = watched
    troubles.delay = 0.02
    for killed in (True, False):
        places = [tmp_path / f"{killed}{number}" for number in range(2)]
        processes = []
        for place in places:
            place.mkdir()
            command = [sys.executable, "-c", READER, url, str(place)]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        troubles.asked.clear()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        while killed and sum("/c." in path for path in troubles.asked) < 6:
            time.sleep(0.005)
        for process in processes:
            if killed:
                process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == (-signal.SIGKILL if killed else 0)
    for place in places:
        for name, values in expected(local).items():
            np.testing.assert_array_equal(np.load(place / f"{name}.npy"), values)
    shards(troubles)
    assert_rows(open_store(url), local)
    assert shards(troubles) == 0
    assert on_disk(folder) > 4096


@pytest.mark.usefixtures("folder")
def test_a_folder_is_listed_once_for_many_pieces(
    local: Path, watched: tuple[str, Troubles], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []
    stored = remote_cache._stored
    monkeypatch.setattr(remote_cache, "_stored", lambda path: listed.append(path) or stored(path))
    url, troubles = watched
    assert_rows(open_store(url), local)
    assert shards(troubles) > 10
    assert len(listed) == 1


def test_it_grows_to_its_limit_and_says_so_once(
    folder: Path,
    local: Path,
    watched: tuple[str, Troubles],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, troubles = watched
    monkeypatch.setenv("OUTOFCORE_S3_CACHE_LIMIT", "100kB")
    for _ in range(2):
        store = open_store(url)
        for _ in range(2):
            assert_rows(store, local)
        line, *more = capsys.readouterr().err.splitlines()
        assert line == (
            f"note: the cache {folder} is full: s3_cache_limit is 100 kB, 'outofcore clear-cache' empties it; the rest "
            f"of {url} is not kept"
        )
        assert not more
        assert shards(troubles) > 10
        pieces = next(folder.glob("*.pieces"))
        assert 50_000 < pieces.stat().st_blocks * 512 <= 100_000


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_power_loss_leaves_a_cache_that_is_read_right(
    make_store: Callable[..., Path], endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pieces and marks nothing is synced: any of them may be there or not, and so may names."""
    local, disk, dice = make_store(batches=GAMES[:3], layout=LAYOUT), tmp_path / "disk", random.Random(1)
    url = upload(local, endpoint, local.parent.name)
    disk.mkdir()
    monkeypatch.setenv("OUTOFCORE_S3_CACHE", str(disk / "cache"))
    monkeypatch.setenv("OUTOFCORE_DISK_RESERVE", "0")
    monkeypatch.setattr("outofcore.store.remote_cache.PIECE", 4096)
    recorded = Recorded(str(disk))
    trace = ["strace", "-f", "-y", "-xx", "-s", "100000000", "-e", f"trace={CALLS}", "-o", str(tmp_path / "trace")]
    subprocess.run([*trace, sys.executable, "-c", READER, url, str(tmp_path)], input=b"\n", check=True)
    recorded.read((tmp_path / "trace").read_text().splitlines())
    assert {event.kind for event in recorded.events} == {"mkdir", "create", "sync", "write"}
    for stop in range(0, len(recorded.events) + 1, 3):
        disk_after(recorded, stop, dice)
        assert_rows(open_store(url), local)
        assert_rows(open_store(url), local)


@pytest.mark.parametrize("fails", ["pwrite", "mkdir", "reserve"])
def test_a_disk_that_is_full_ends_the_keeping_and_not_the_reading(
    fails: str,
    folder: Path,
    local: Path,
    watched: tuple[str, Troubles],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, _ = watched
    calls = iter(range(10))
    real = os.pwrite

    def refuse(*arguments: Any, **options: Any) -> int:
        if fails == "pwrite" and next(calls, None) is not None:
            return real(*arguments, **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if fails == "reserve":
        monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10**6, total=10**9))
        monkeypatch.setenv("OUTOFCORE_DISK_RESERVE", "1GB")
    else:
        monkeypatch.setattr(f"os.{fails}", refuse)
    store = open_store(url)
    assert_rows(store, local)
    why = "is full: 1.00 MB of the disk are free" if fails == "reserve" else "cannot be used (No space left on device)"
    line, *more = capsys.readouterr().err.splitlines()
    assert line.startswith(f"note: the cache {folder} {why}")
    assert not more
    monkeypatch.undo()


def test_a_folder_with_other_files_is_refused_and_left_alone(
    folder: Path, watched: tuple[str, Troubles], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = watched
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(ParamsError, match=r"^s3_cache: \S+ holds other files, such as 'thesis.txt'; name an empty or"):
        open_store(url)
    ran = CliRunner().invoke(app, ["clear-cache"])
    assert ran.exit_code == 2
    assert names_in(folder) == ["thesis.txt"]
    monkeypatch.delenv("OUTOFCORE_S3_CACHE")
    assert CliRunner().invoke(app, ["clear-cache"]).exit_code == 2


def test_a_link_in_the_folder_is_not_followed(
    folder: Path, local: Path, watched: tuple[str, Troubles], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, _ = watched
    store = open_store(url)
    (tmp_path / "thesis.txt").write_text("mine")
    remote_cache.clear(folder)
    folder.joinpath(remote_cache.MARKER).touch()
    (folder / f"{store.digest}.pieces").symlink_to(tmp_path / "thesis.txt")
    assert_rows(open_store(url), local)
    assert "cannot be used" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    remote_cache.clear(folder)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_piece_that_was_damaged_is_fetched_again_once(
    folder: Path, local: Path, watched: tuple[str, Troubles], endpoint: str
) -> None:
    """Of an index as of a chunk; if the storage has no better one, it is an error."""
    url, troubles = watched
    assert_rows(open_store(url), local)
    (kept,) = folder.glob("*.pieces")
    content = bytearray(kept.read_bytes())
    begin = content.index((local / "train/move/c.0").read_bytes())
    for place in (begin + 5, begin + 700):
        content[place] ^= 1
        kept.write_bytes(content)
        shards(troubles)
        assert_rows(open_store(url), local)
        assert shards(troubles) == 1
        assert kept.read_bytes().count((local / "train/move/c.0").read_bytes()) == 1
        content[place] ^= 1
    far = bytearray((local / "train/move/c.0").read_bytes())
    far[700] ^= 1
    put_objects(endpoint, url, {"train/move/c.0": bytes(far)})
    store = open_store(url)
    content[begin + 700] ^= 1
    kept.write_bytes(content)
    with pytest.raises(DamagedStore, match="field train/move"):
        store.rows("train")["move"].read()
    assert shards(troubles) == 1


def test_a_damaged_piece_of_two_chunks_is_fetched_again_by_both_threads(
    folder: Path, local: Path, watched: tuple[str, Troubles]
) -> None:
    """Also by the one that finds the damage while the other has dropped the piece and not yet fetched it."""
    url, _ = watched
    files, name = cached_files(open_store(url)), "train/move/c.0"
    whole = (local / name).read_bytes()
    assert files.read(name, 0, 100) == whole[:100]
    (kept,) = folder.glob("*.pieces")
    content = bytearray(kept.read_bytes())
    content[content.index(whole[:4096])] ^= 1
    kept.write_bytes(content)

    def check(found: bytes) -> bytes:
        if found != whole[:100]:
            files.drop(name, 50, 100)  # as the other thread does
            raise DamagedStore("a checksum does not match")
        return found

    assert read_checked(files, name, 0, 100, check) == whole[:100]


def test_another_store_at_the_address_is_read_anew(
    folder: Path, local: Path, watched: tuple[str, Troubles], endpoint: str, make_store: Callable[..., Path]
) -> None:
    url, _ = watched
    assert_rows(open_store(url), local)
    other = make_store("other.zarr", batches=GAMES, layout=LAYOUT, seed=1)
    upload(other, endpoint, url.rpartition("/")[2])
    assert_rows(open_store(url), other)
    assert len(list(folder.glob("*.pieces"))) == 2


def test_verification_reads_the_storage(folder: Path, local: Path, watched: tuple[str, Troubles]) -> None:
    url, troubles = watched
    assert_rows(open_store(url), local)
    before = folder.stat().st_mtime_ns
    shards(troubles)
    assert not verify(url).problems
    assert shards(troubles) > 10
    assert folder.stat().st_mtime_ns == before


def test_one_command_removes_what_is_ours(
    folder: Path, local: Path, watched: tuple[str, Troubles], capsys: pytest.CaptureFixture[str]
) -> None:
    url, _ = watched
    store = open_store(url)
    store.rows("train")["move"].read()
    (folder / "notes.txt").write_text("mine")
    (folder / ("0" * 64)).mkdir()
    freed = next(folder.glob("*.pieces")).stat().st_blocks * 512
    ran = CliRunner().invoke(app, ["clear-cache"])
    assert ran.output == f"{folder}: removed 1 store, {freed / 1000:.1f} kB freed\n"
    assert names_in(folder) == ["0" * 64, "notes.txt", remote_cache.MARKER]
    assert_rows(store, local)  # which reads what it had open, and says that nothing more is kept
    assert "was cleared; the rest of" in capsys.readouterr().err
    (folder / "notes.txt").unlink()
    (folder / ("0" * 64)).rmdir()
    assert CliRunner().invoke(app, ["clear-cache"]).output == f"{folder}: removed 0 stores, 0 B freed\n"
    assert names_in(folder) == []
