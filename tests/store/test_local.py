"""The files of a store on disk: those that were there when it was opened, or one line that says what is wrong."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from outofcore.errors import DamagedStore, StoreError
from outofcore.loading.dataset import ZarrDataset
from outofcore.store import local as module
from outofcore.store.bulk import read_chunks
from outofcore.store.reader import Array, open_store
from outofcore.store.schema import Layout
from outofcore.system import descriptors
from tests.processes import with_few_files

MakeStore = Callable[..., Path]

SMALL = Layout(codec="none", chunk_rows=16, shard_rows=16)
NAMES = ("train/move/c.0", "train/move/c.1")


@pytest.fixture
def two(make_store: MakeStore) -> tuple[Path, Path]:
    """Two stores of the same files and sizes with other rows; the second is one game longer in front."""
    batches = [[100, 200, 300], [300, 200, 100]]
    layout = Layout(codec="none", chunk_rows=64, shard_rows=64)
    return make_store("a.zarr", batches=batches, layout=layout), make_store(
        "b.zarr", batches=batches, layout=layout, seed=1
    )


def move(root: Path) -> Array:
    return open_store(root).rows("train")["move"]


def test_a_file_is_read_although_others_are_opened_meanwhile(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OPEN_FILES", 1)
    root = make_store(layout=SMALL)
    files = open_store(root).rows("train")["move"].files
    pread = os.pread

    def interrupted(number: int, length: int, offset: int) -> bytes:
        monkeypatch.setattr(os, "pread", pread)
        files.read(NAMES[1], 0, 8)  # as another thread would, between opening and reading
        return pread(number, length, offset)

    monkeypatch.setattr(os, "pread", interrupted)
    size = files.size(NAMES[0])
    assert files.read(NAMES[0], 0, size) == (root / NAMES[0]).read_bytes()


def test_a_store_that_takes_the_place_of_an_open_one_never_mixes_in(two: tuple[Path, Path]) -> None:
    old, new = two
    array = move(old)
    expected = array.read()
    kept = old.with_name("kept.zarr")
    array.read(0, 10)
    array.files.forget()  # type: ignore[attr-defined]
    old.rename(kept)
    new.rename(old)
    assert (move(old).read() != expected).any()
    np.testing.assert_array_equal(array.read(), expected)
    array.files.forget()  # type: ignore[attr-defined]
    shutil.rmtree(kept)
    with pytest.raises(DamagedStore, match=r"train/move/c\.0 has vanished since the store was opened"):
        array.read()


def test_files_that_are_replaced_one_by_one_never_mix_in(two: tuple[Path, Path]) -> None:
    old, new = two
    array = move(old)
    expected = array.read(0, 64)
    array.files.forget()  # type: ignore[attr-defined]
    copy = old / "copy"
    shutil.copy(old / NAMES[0], copy)
    copy.replace(old / NAMES[0])  # the same bytes in another file, as when DVC links anew
    np.testing.assert_array_equal(array.read(0, 64), expected)
    (new / NAMES[1]).replace(old / NAMES[1])
    with pytest.raises(DamagedStore, match=r"c\.1 was replaced or changed since the store was opened"):
        array.read(64, 128)


def test_another_working_directory_changes_nothing(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = two
    elsewhere = old.parent / "elsewhere"
    elsewhere.mkdir()
    expected = move(old).read()
    monkeypatch.chdir(old.parent)
    array, dataset = move(Path(old.name)), ZarrDataset(old.name)
    shutil.copytree(new, elsewhere / old.name)
    monkeypatch.chdir(elsewhere)
    np.testing.assert_array_equal(array.read(), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array)).read(), expected)
    assert len(pickle.dumps(dataset)) < 1000
    copied = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(copied[list(range(50))]["move"].numpy(), expected[:50])


def test_a_copy_in_another_process_refuses_another_store(two: tuple[Path, Path]) -> None:
    old, new = two
    pickled = pickle.dumps(move(old))
    shutil.rmtree(old)
    new.rename(old)
    with pytest.raises(StoreError, match="another store has taken the place of the one that was opened"):
        pickle.loads(pickled)


def test_a_symbolic_link_is_followed_once(two: tuple[Path, Path]) -> None:
    old, new = two
    link = old.with_name("current.zarr")
    link.symlink_to(old)
    array = move(link)
    expected = move(old).read()
    link.unlink()
    link.symlink_to(new)
    np.testing.assert_array_equal(array.read(), expected)


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("call", ["open", "pread", "stat"])
def test_what_the_filesystem_refuses_is_one_line(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    root = make_store()
    store = open_store(root)
    real = getattr(os, call)

    def refused(path: object, *arguments: object, **options: object) -> object:
        if call == "pread" or path == "train/move/c.0":
            raise OSError(code, os.strerror(code))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, call, refused)
    with pytest.raises(StoreError, match=rf"^{root}: .* cannot be read: {os.strerror(code)}") as told:
        move(root).read() if call == "stat" else store.rows("train")["move"].read()
    assert "\n" not in str(told.value)


def test_stores_are_opened_while_another_thread_closes_the_files_of_all(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_store(layout=SMALL)
    files = open_store(root).rows("train")["move"].files
    real, opened = descriptors.Descriptor, []

    def scarce(*_: object, **__: object) -> None:
        monkeypatch.setattr(descriptors, "Descriptor", real)
        sys.settrace(opening)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def opening(frame: FrameType, event: str, _: object) -> Any:
        """Opens a store, as another thread may at each line of the collection of all of them."""
        if event == "line" and "weak" in frame.f_code.co_filename and len(opened) < 20:
            opened.append(module.LocalFiles(root))
        return opening

    monkeypatch.setattr(descriptors, "Descriptor", scarce)
    tracing = sys.gettrace()
    try:
        assert len(files.read(NAMES[0], 0, 8)) == 8
    finally:
        sys.settrace(tracing)
    assert opened


def test_more_shards_than_files_that_may_be_open(make_store: MakeStore) -> None:
    with_few_files(compare_all_shards, make_store(batches=[[2000]], layout=SMALL))


def compare_all_shards(store: Path) -> None:
    table = open_store(store).rows("train")
    arrays = [table[name] for name in ("boards", "clock", "move")]
    chunks = np.arange(arrays[0].chunks)
    buffers = [np.zeros((len(chunks), 16, *array.shape[1:]), array.dtype) for array in arrays]
    read_chunks(arrays, chunks, buffers, chunks)
    for array, buffer in zip(arrays, buffers, strict=True):
        rows = buffer.reshape(-1, *array.shape[1:])[: len(array)]
        np.testing.assert_array_equal(rows, array.read())


def test_more_stores_than_files_that_may_be_open(make_store: MakeStore) -> None:
    with_few_files(compare_stores, [make_store(f"{number}.zarr", seed=number) for number in range(30)])


def compare_stores(roots: list[Path]) -> None:
    stores = [open_store(root) for root in roots]
    first, again = ([store.rows("train")["move"].read(0, 100) for store in stores] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len({rows.tobytes() for rows in first}) == len(roots)
    roots[0].rename(roots[0].with_name("gone.zarr"))
    roots[1].rename(roots[0])
    with pytest.raises(StoreError, match="another store has taken the place"):
        stores[0].rows("train")["move"].read()


def test_an_open_store_keeps_its_folder_open_and_no_file(make_store: MakeStore) -> None:
    root = make_store()
    before = {*Path("/proc/self/fd").iterdir()}
    store = open_store(root)
    assert len({*Path("/proc/self/fd").iterdir()} - before) == 1
    assert store.digest


def test_a_process_that_may_open_no_further_file_is_told_so(make_store: MakeStore) -> None:
    store = make_store(batches=[[2000]], layout=SMALL)
    with pytest.raises(StoreError, match=r"has its limit of \d+ files open; raise it with 'ulimit -n'"):
        with_few_files(hold_all_shards, store)


def hold_all_shards(store: Path) -> None:
    array = move(store)
    held = [array.files.open(array.shard_file(number)) for number in range(100)]
    assert not held, "every shard could be opened"
