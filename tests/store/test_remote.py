"""A store in an object storage reads like one on disk, by few requests, and in spite of a bad server."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import zarr
from hypothesis import given
from hypothesis import strategies as st

from outofcore.errors import DamagedStore, StoreError
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from outofcore.store.codecs import CodecName
from outofcore.store.connection import address_of
from outofcore.store.files import Ranges
from outofcore.store.reader import Store, open_store
from outofcore.store.remote import (
    GAP_BYTES,
    REQUEST_BYTES,
    RemoteFiles,
    coalesced,
)
from outofcore.store.schema import Layout
from outofcore.store.verify import Verdict, verify
from tests.store.object_storage import Troubles, remove, serve_badly, upload

pytestmark = pytest.mark.xdist_group("object storage")

GAMES = [[40, 300, 77] for _ in range(12)]


@pytest.fixture(params=get_args(CodecName))
def local(request: pytest.FixtureRequest, make_store: Callable[..., Path]) -> Path:
    return make_store(batches=GAMES, layout=Layout(codec=request.param, chunk_rows=64, shard_rows=512))


@pytest.fixture
def troubled(
    make_store: Callable[..., Path], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, str, Troubles]]:
    """A store on disk, its address behind a server that can be made to fail, and that server's troubles."""
    local = make_store()
    url = upload(local, endpoint, local.parent.name)
    with serve_badly(endpoint) as (bad, troubles):
        monkeypatch.setenv("AWS_ENDPOINT_URL", bad)
        yield local, url, troubles


def files_of(store: Store) -> RemoteFiles:
    files = store.rows("train")["move"].files
    assert isinstance(files, RemoteFiles)
    return files


def test_it_reads_like_the_store_on_disk(local: Path, endpoint: str) -> None:
    here, there = open_store(local), open_store(upload(local, endpoint, local.parent.name))
    assert there.digest == here.digest
    for split in here.splits:
        for ours, theirs in ((here.rows(split), there.rows(split)), (here.sequences(split), there.sequences(split))):
            for name, array in ours.read().items():
                np.testing.assert_array_equal(theirs[name].read(), array)
    assert open_store(Path(str(there.root))).digest == here.digest
    copied = pickle.loads(pickle.dumps(files_of(there)))
    assert copied.read("seal.json", 0, 10) == (local / "seal.json").read_bytes()[:10]


def test_an_epoch_gives_the_same_batches_by_few_requests(
    local: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = open_store(local), open_store(upload(local, endpoint, local.parent.name))
    get, received = RemoteFiles._get, list[int]()

    def counted(files: RemoteFiles, name: str, **options: Any) -> Any:
        answer = get(files, name, **options)
        received.append(len(answer[0]) if answer else 0)
        return answer

    monkeypatch.setattr(RemoteFiles, "_get", counted)
    options = {"memory": "128MiB", "residency": "streamed", "shuffle": Shuffle(pool_blocks=8), "threads": 2}
    near, far = loader(here, "train", 100, **options), loader(there, "train", 100, **options)
    for ours, theirs in zip(near, far, strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    rows = here.rows("train")
    chunks = rows["move"].chunks * len(rows.fields)
    assert len(received) < chunks
    stored = sum(here.stored_bytes(array) for array in rows.fields.values())
    assert near.stats.bytes_read == far.stats.bytes_read <= sum(received) <= 2 * stored
    near.close()
    far.close()


def test_chunks_of_a_range_are_requested_together(
    make_store: Callable[..., Path], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = make_store(batches=GAMES)
    move = open_store(upload(local, endpoint, local.parent.name)).rows("train")["move"]
    assert move.chunks > 8
    move.read(0, 1)
    requests, together = RemoteFiles._fetch, threading.Barrier(8, timeout=20)

    def fetch(files: RemoteFiles, run: tuple[str, int, int]) -> object:
        if run[1] and next(first, None) is not None:  # no index
            together.wait()  # until eight have begun
        return requests(files, run)

    first = iter(range(8))
    monkeypatch.setattr(RemoteFiles, "_fetch", fetch)
    np.testing.assert_array_equal(move.read(), open_store(local).rows("train")["move"].read())
    assert not together.broken
    monkeypatch.setattr("os.getpid", lambda: -1)  # as after a fork, where the threads are missing
    with pytest.raises(StoreError, match="connections do not survive a fork"):
        move.read()


def test_any_zarr_there_is_read_in_place(tmp_path: Path, endpoint: str) -> None:
    zarr.open_group(tmp_path / "other.zarr", mode="w").create_array("x", data=np.arange(300), chunks=(32,))
    address = upload(tmp_path / "other.zarr", endpoint, "other.zarr")
    rows = [int(row) for batch in loader(address, batch_size=64, memory="8MiB") for row in batch["x"]]
    assert sorted(rows) == list(range(300))
    with pytest.raises(StoreError, match="no sealed store"):
        loader(f"{address}.nothing")


def test_it_is_verified_like_the_store_on_disk(make_store: Callable[..., Path], endpoint: str) -> None:
    local = make_store()
    url = upload(local, endpoint, local.parent.name)
    for address in (url, Path(url)):  # a Path has lost one of the slashes
        assert verify(address) == Verdict(url, *astuple(verify(local))[1:])
    remove(endpoint, url, "train/move/c.0")
    assert verify(Path(url)).problems[0].startswith(f"{url}: train/move/c.0 is missing")
    assert verify(Path("s3://nowhere/a.zarr")).problems[0].startswith("s3://nowhere/a.zarr: there is no sealed store")


def test_a_store_that_takes_the_address_never_mixes_in(make_store: Callable[..., Path], endpoint: str) -> None:
    """Of the same sizes and shapes; also where a copy in another process reads."""
    layout = Layout(codec="none", chunk_rows=64, shard_rows=512)
    old, new = (make_store(f"{seed}.zarr", batches=GAMES, layout=layout, seed=seed) for seed in range(2))
    url = upload(old, endpoint, old.parent.name)
    store = open_store(url)
    move = store.rows("train")["move"]
    expected = open_store(old).rows("train")["move"].read()
    copied = pickle.loads(pickle.dumps(move))
    np.testing.assert_array_equal(move.read(0, 64), expected[:64])
    np.testing.assert_array_equal(copied.read(0, 64), expected[:64])
    pickled = pickle.dumps(store)
    batches = iter(
        loader(store, "train", 64, residency="streamed", memory="64MiB", shuffle=Shuffle(pool_blocks=1), threads=1)
    )
    assert set(next(batches)["move"].tolist()) <= set(expected.tolist())
    upload(new, endpoint, old.parent.name)
    with pytest.raises(StoreError, match="another store has taken the place of the one that was opened"):
        move.read()
    with pytest.raises(StoreError, match="another store has taken the place of the one that was opened"):
        copied.read()
    with pytest.raises(StoreError, match="another store has taken the place of the one that was opened"):
        pickle.loads(pickled)
    rest: list[int] = []
    with pytest.raises(StoreError, match="another store has taken the place of the one that was opened"):
        rest.extend(value for batch in batches for value in batch["move"].tolist())
    assert set(rest) <= set(expected.tolist())
    assert open_store(url).digest == open_store(new).digest


def test_mapping_is_refused(make_store: Callable[..., Path], endpoint: str) -> None:
    store = make_store(layout=Layout(codec="none", chunk_rows=64, shard_rows=256))
    far = upload(store, endpoint, store.parent.name)
    with pytest.raises(StoreError, match="on a disk of this machine: use residency 'streamed'"):
        loader(far, "train", 100, residency="mapped")


@pytest.mark.parametrize("trouble", ["503", "cut"])
def test_a_request_that_fails_is_repeated(troubled: tuple[Path, str, Troubles], trouble: str) -> None:
    local, url, troubles = troubled
    for healthy in range(5):  # the trouble comes to another request of the opening each time
        troubles.pending += [""] * healthy + [trouble] * 2
        assert open_store(url).digest == open_store(local).digest
        troubles.pending.clear()
    assert (before := troubles.done[trouble]) >= 8
    store = open_store(url)
    troubles.pending += [trouble] * 3
    np.testing.assert_array_equal(store.rows("train")["move"].read(), open_store(local).rows("train")["move"].read())
    assert troubles.done[trouble] == before + 3


def test_a_storage_that_refuses_everything_for_a_while_is_waited_for(troubled: tuple[Path, str, Troubles]) -> None:
    """Six seconds: six retries at the client's own pace end after one or two."""
    local, url, troubles = troubled
    store = open_store(url)
    troubles.always = "503"
    well = threading.Timer(6, setattr, (troubles, "always", ""))
    well.start()
    np.testing.assert_array_equal(store.rows("train")["move"].read(), open_store(local).rows("train")["move"].read())
    well.join()
    assert troubles.done["503"] > 3


def test_a_bucket_that_is_not_there_is_asked_for_once(troubled: tuple[Path, str, Troubles]) -> None:
    *_, troubles = troubled
    before = troubles.seen.total()
    with pytest.raises(StoreError):
        RemoteFiles("s3://nowhere/a.zarr").sizes()
    assert troubles.seen.total() == before + 1


def test_requests_that_do_not_depend_on_each_other_wait_together(
    troubled: tuple[Path, str, Troubles], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening takes two rounds, the sample that the loader reads three, and a pool of any number of shards two."""
    _, url, troubles = troubled
    troubles.delay = 0.5
    monkeypatch.setattr("outofcore.store.remote._requests", lambda _: ThreadPoolExecutor(100))
    with loader(url, "train", 100, memory="64MiB") as batches:
        assert 1 < troubles.rounds() < 8
        next(iter(batches))
        assert troubles.rounds() < 14
    assert troubles.seen["GET"] > 20


def test_a_server_that_stalls_is_asked_again_and_then_it_is_one_line(
    troubled: tuple[Path, str, Troubles], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url, troubles = troubled
    monkeypatch.setattr("outofcore.store.connection.REQUEST_SECONDS", 1)
    monkeypatch.setattr("outofcore.store.connection.RETRIES", 1)
    store = open_store(url)
    for trouble in ("stall", "503"):
        troubles.always = trouble
        with pytest.raises(
            StoreError, match=r"^s3://stores/\S+: train/move/c\.0 could not be read after 1 retries"
        ) as told:
            store.rows("train")["move"].read()
        assert "\n" not in str(told.value)


def test_what_is_missing_or_forbidden_is_one_line(
    make_store: Callable[..., Path], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = make_store()
    url = upload(local, endpoint, local.parent.name)
    for missing in ("s3://stores/nothing.zarr", "s3://nowhere/chess.zarr"):
        with pytest.raises(StoreError, match=f"{missing}: there is no sealed store at this address"):
            open_store(missing)
    store = open_store(url)
    remove(endpoint, url, "train/move/c.0")
    with pytest.raises(DamagedStore, match=r"train/move/c\.0 has vanished"):
        store.rows("train")["move"].read()
    with pytest.raises(DamagedStore, match=r"train/move/c\.0 is missing; convert again"):
        open_store(url)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(StoreError, match=r"nothing in the environment says who you are: set AWS_ACCESS_KEY_ID and"):
        open_store(url)


def test_a_changed_bit_is_noticed(make_store: Callable[..., Path], endpoint: str) -> None:
    local = make_store()
    shard = local / "train/move/c.0"
    content = bytearray(shard.read_bytes())
    content[-3] ^= 1
    shard.write_bytes(content)
    far = loader(upload(local, endpoint, local.parent.name), "train", 100, residency="streamed", memory="128MiB")
    with pytest.raises(DamagedStore, match=r"field train/move, shard train/move/c\.0, chunk 3 .* is damaged"):
        list(far)


@pytest.mark.usefixtures("endpoint")
def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(StoreError, match=r"pip install 'outofcore\[s3\]'"):
        open_store("s3://stores/a.zarr")


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("s3://bucket/a/b.zarr", "s3://bucket/a/b.zarr"),
        ("s3:/bucket/b.zarr/", "s3://bucket/b.zarr"),
        ("data/stores/a.zarr", None),
        ("/s3/a.zarr", None),
    ],
)
def test_addresses_are_told_from_paths(path: str, url: str | None) -> None:
    assert address_of(path) == url
    assert address_of(Path(path)) == url


@pytest.mark.parametrize(
    "path", ["s3://bucket", "s3://bucket/", "s3://bucket/a?versionId=1", "s3://bucket/a#b", "s3:/KEY:SECRET@bucket/x"]
)
def test_an_address_is_a_bucket_and_a_folder(path: str) -> None:
    keys = "; keys do not belong in an address: set AWS_ACCESS_KEY_ID" if "SECRET" in path else ""
    with pytest.raises(StoreError, match=rf"expected s3://bucket/folder{keys}"):
        address_of(path)


@given(st.lists(st.tuples(st.integers(0, 3 * GAP_BYTES), st.integers(1, 2 * GAP_BYTES)), min_size=1, max_size=40))
def test_joined_ranges_cover_the_given_ones_and_little_else(pieces: list[tuple[int, int]]) -> None:
    ends = np.cumsum([gap + length for gap, length in pieces])
    lengths = np.array([length for _, length in pieces])
    order = np.random.default_rng(0).permutation(len(pieces))
    runs = coalesced(Ranges("a", (ends - lengths)[order], lengths[order]))
    assert runs == sorted(runs)
    assert all(stop - start <= REQUEST_BYTES for start, stop in runs)
    for start, stop in zip(ends - lengths, ends, strict=True):
        assert sum(first <= start and stop <= last for first, last in runs) == 1
    assert sum(stop - start for start, stop in runs) <= lengths.sum() + GAP_BYTES * (len(pieces) - len(runs))


@given(st.lists(st.tuples(st.integers(0, 9 << 20), st.integers(1, 6 << 20)), min_size=1, max_size=12))
def test_ranges_that_overlap_are_inside_of_what_is_fetched_for_them(ranges: list[tuple[int, int]]) -> None:
    """As the index of a shard of other software may name them."""
    offsets, lengths = np.array(ranges).T
    runs = coalesced(Ranges("a", offsets, lengths))
    for offset, length in ranges:
        start, stop = [run for run in runs if run[0] <= offset][-1]
        assert start <= offset < offset + length <= stop
