"""Arrays of other software against zarr-python's own reading: which are read without it, and what is left to it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import google_crc32c
import numcodecs
import numpy as np
import numpy.typing as npt
import pytest
import zarr
import zarr.codecs

from outofcore.errors import StoreError
from outofcore.ndarrays import Ints
from outofcore.store import bulk
from outofcore.store.foreign import ForeignArray, open_zarr
from outofcore.store.remote import RemoteFiles
from tests.cases import long_cases
from tests.served import Ranges, served

VALUES = np.random.default_rng(0).integers(0, 90, (205, 20, 8))
V2: dict[str, Any] = {"zarr_format": 2}
SHARDS: dict[str, Any] = {"shards": (40, 20, 8)}
ORDINARY: dict[str, dict[str, Any]] = {
    "v3": {},
    "v3 blosc": {"compressors": zarr.codecs.BloscCodec(cname="zstd")},
    "v3 blosc lz4, bits": {"compressors": zarr.codecs.BloscCodec(cname="lz4", shuffle="bitshuffle")},
    "v3 zstd with checksum": {"compressors": zarr.codecs.ZstdCodec(level=3, checksum=True)},
    "v3 plain": {"compressors": None},
    "v3 dots": {"chunk_key_encoding": {"name": "default", "separator": "."}},
    "v3 keys of v2": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "v3 bytes": {"dtype": "u1"},
    "v3 bool": {"dtype": "?"},
    "v3 doubles": {"dtype": "f8"},
    "shards": SHARDS,
    "shards plain": {**SHARDS, "compressors": None},
    "shards blosc": {**SHARDS, "compressors": zarr.codecs.BloscCodec()},
    "shards indexed first": {"shards": {"shape": (40, 20, 8), "index_location": "start"}},
    "shards of bytes": {**SHARDS, "dtype": "i1", "chunks": (8, 20, 8)},
    "v2": V2,
    "v2 blosc": {**V2, "compressors": numcodecs.Blosc()},
    "v2 plain": {**V2, "compressors": None},
    "v2 slashes": {**V2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "chunks of 1": {"chunks": (1, 20, 8)},
    "one chunk": {"chunks": (205, 20, 8)},
    "longer than the array": {"chunks": (300, 20, 8)},
}
CHANGED = ("v3", "shards", "shards blosc", "v2")
CHANGED_TOO = [form for form in ORDINARY if form not in (*CHANGED, "chunks of 1")]
OTHER: dict[str, dict[str, Any]] = {
    "v3 gzip": {"compressors": zarr.codecs.GzipCodec()},
    "v3 checksum of its own": {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
    "v3 transposed": {"filters": zarr.codecs.TransposeCodec(order=(2, 1, 0))},
    "v3 big-endian": {"serializer": zarr.codecs.BytesCodec(endian="big")},
    "shards big-endian": {**SHARDS, "serializer": zarr.codecs.BytesCodec(endian="big")},
    "shards of small chunks": {**SHARDS, "chunks": (1, 20, 8), "dtype": "u1"},
    "shards cut across": {"chunks": (8, 10, 8), "shards": (40, 20, 8)},
    "cut across": {"chunks": (8, 20, 4)},
    "v2 zlib": {**V2, "compressors": numcodecs.Zlib()},
    "v2 lz4": {**V2, "compressors": numcodecs.LZ4()},
    "v2 delta": {**V2, "filters": [numcodecs.Delta("<i4")]},
    "v2 Fortran": {**V2, "order": "F"},
    "v2 big-endian": {**V2, "dtype": ">i4"},
}


def write(folder: Path, dtype: str = "i4", chunks: tuple[int, ...] = (8, 20, 8), **form: Any) -> zarr.Array[Any]:
    array = zarr.create_array(
        folder / "a.zarr", shape=VALUES.shape, dtype=dtype, chunks=chunks, fill_value=1, overwrite=True, **form
    )
    array[:] = VALUES.astype(dtype)
    return array


def opened(folder: Path, rows: tuple[int, int] = (0, len(VALUES))) -> ForeignArray:
    return open_zarr(folder / "a.zarr", rows=rows).fields(range(*rows))["array"]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """First rows of what is left to zarr-python."""
    rows: list[int] = []
    decode: Callable[..., Any] = ForeignArray._decode

    def recorded(self: ForeignArray, start: int, out: npt.NDArray[Any]) -> Any:
        rows.append(start)
        return decode(self, start, out)

    monkeypatch.setattr(ForeignArray, "_decode", recorded)
    return rows


def chunks_of(array: ForeignArray) -> npt.NDArray[Any]:
    """All rows, by chunks in places of any order, with the rows beyond the last of the array, which are 0."""
    slots: Ints = np.random.default_rng(1).permutation(array.chunks + 2)[: array.chunks]
    buffer = np.full((array.chunks + 2, array.chunk_rows, *array.shape[1:]), 77).astype(array.dtype)
    bulk.read_chunks([array], np.arange(array.chunks), [buffer], slots)
    return buffer[slots].reshape(-1, *array.shape[1:])


@pytest.mark.parametrize("form", [*ORDINARY, *OTHER])
def test_values_are_those_of_zarr_python(tmp_path: Path, left: list[int], form: str) -> None:
    expected: Any = np.asarray(write(tmp_path, **{**ORDINARY, **OTHER}[form])[:])
    for rows in ((0, 205), (8, 203), (3, 120), (15, 16)):
        array = opened(tmp_path, rows)
        got = chunks_of(array)
        assert (got[: len(array)] == expected[slice(*rows)]).all()
        assert not got[len(array) :].any()
        assert (array.read(len(array) // 3) == expected[slice(*rows)][len(array) // 3 :]).all()
    assert (not left) == (form in ORDINARY)


def test_rows_go_into_arrays_of_other_numbers_and_not_into_what_cannot_be_written(tmp_path: Path) -> None:
    """Compiled code writes what it decodes to an address, whatever is there."""
    write(tmp_path)
    array = opened(tmp_path)
    for dtype in ("f8", "i2"):
        wider = np.full((len(VALUES) + 8, 20, 8), 77, dtype)
        array.read(out=wider[: len(VALUES)])
        assert (wider[: len(VALUES)] == VALUES).all()
        assert (wider[len(VALUES) :] == 77).all()
    fixed = np.zeros(VALUES.shape, "i4")
    fixed.flags.writeable = False
    with pytest.raises(StoreError, match="read-only"):
        array.read(out=fixed)
    assert not fixed.any()


@pytest.mark.parametrize("form", ["v3", "shards", "v2 blosc"])
def test_where_compiled_code_has_no_functions_zarr_python_reads(
    tmp_path: Path, left: list[int], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    expected: Any = np.asarray(write(tmp_path, **ORDINARY[form])[:])
    monkeypatch.setattr(bulk, "_decoders", lambda: None)
    assert (chunks_of(opened(tmp_path))[: len(expected)] == expected).all()
    assert left


@pytest.mark.parametrize("form", ["v3", "shards", "v2", "v3 plain", "chunks of 1"])
def test_missing_chunks_are_the_fill_value(tmp_path: Path, form: str) -> None:
    array = write(tmp_path, **ORDINARY[form])
    array[48:56] = 1  # of one chunk, which is then not stored
    array[80:120] = 1  # of one shard
    expected: Any = np.asarray(array[:])
    assert (chunks_of(opened(tmp_path))[: len(expected)] == expected).all()
    shutil.rmtree(tmp_path / "a.zarr/c", ignore_errors=True)
    if form != "v2":
        assert (chunks_of(opened(tmp_path))[: len(expected)] == 1).all()


def assert_same(array: ForeignArray, rows: slice, stored: zarr.Array[Any]) -> bool:
    """Whether zarr-python reads some rows; they are read here, or refused in one line."""
    try:
        expected = np.asarray(stored[rows])
    except Exception:  # noqa: BLE001 - of any codec
        with pytest.raises(StoreError, match=r"rows \d+ to \d+ of array cannot be read") as refused:
            array.read(rows.start, rows.stop)
        assert "\n" not in str(refused.value)
        return False
    assert (array.read(rows.start, rows.stop) == expected).all()
    return True


@pytest.mark.parametrize("form", [*CHANGED, *long_cases(*CHANGED_TOO)])
def test_changed_bytes_give_what_zarr_python_gives(tmp_path: Path, form: str) -> None:
    """Its values, or one line in place of its error; never anything else."""
    stored = write(tmp_path, **ORDINARY[form])
    files = sorted(path for path in (tmp_path / "a.zarr").rglob("*") if path.is_file() and path.name[0] not in "z.")
    generator, refused = np.random.default_rng(2), 0
    for number in range(9):
        path = files[generator.integers(len(files))]
        content = path.read_bytes()
        changed = bytearray(content)
        if number % 3 == 0 and "blosc" not in form:  # of those that are cut, zarr-python's values are any
            del changed[generator.integers(len(changed)) :]
        elif number % 3 == 1:
            changed += b"more"
        else:
            changed[generator.integers(len(changed))] ^= 1 << generator.integers(8)
        path.write_bytes(changed)
        array = opened(tmp_path)
        for start in range(0, len(array), array.chunk_rows):
            rows = slice(start, min(start + array.chunk_rows, len(array)))
            refused += not assert_same(array, rows, stored)
        path.write_bytes(content)
    assert refused or "blosc" in form


BLOSC: dict[str, dict[str, Any]] = {
    "v3": {"compressors": zarr.codecs.BloscCodec()},
    "v3 cut across": {"compressors": zarr.codecs.BloscCodec(), "chunks": (8, 20, 4)},
    "v3 by numcodecs' name": {"compressors": {"name": "numcodecs.blosc", "configuration": {"clevel": 5}}},
    "v3 with a checksum inside": {"compressors": [zarr.codecs.Crc32cCodec(), zarr.codecs.BloscCodec()]},
    "shards": {"shards": {"shape": (40, 20, 8), "index_location": "start"}, "compressors": zarr.codecs.BloscCodec()},
    "v2": {**V2, "compressors": numcodecs.Blosc()},
    "v2 big-endian": {**V2, "compressors": numcodecs.Blosc(cname="zstd"), "dtype": ">i4"},
    "v2 as a filter": {**V2, "compressors": None, "filters": [numcodecs.Blosc()]},
}


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification")
@pytest.mark.parametrize("served", [False, *long_cases(True)], ids=["in files", "at an address"])
@pytest.mark.parametrize("form", BLOSC)
def test_a_blosc_chunk_that_was_cut_is_an_error(tmp_path: Path, server: str, form: str, served: bool) -> None:
    """numcodecs reads as far as its header says, whatever is in memory there."""
    write(tmp_path, **BLOSC[form])
    path = next(path for name in ("c/0/0/0", "0.0.0") if (path := tmp_path / "a.zarr" / name).exists())
    content = path.read_bytes()
    assert (opened(tmp_path).read() == VALUES).all()
    for left in (len(content) - 1, len(content) // 2 if form != "shards" else len(content) - 99, 16, 15, 1, 0):
        path.write_bytes(content[:left])
        array = remote(server) if served else opened(tmp_path)
        with pytest.raises(StoreError, match=r"rows .* cannot be read"):
            array.read(0, 40)
        assert (array.read(80, 205) == VALUES[80:]).all()


@pytest.mark.parametrize("form", ["v3 cut across", "shards", "v2"])
def test_another_pipeline_of_zarr_python_decodes_blosc_by_itself(tmp_path: Path, form: str) -> None:
    """One that does not know the check warns, which is an error here, and leaves the array to zarr-python."""
    import zarrs  # noqa: F401 - registers the pipeline

    write(tmp_path, **BLOSC[form])
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        assert (opened(tmp_path).read() == VALUES).all()


def test_a_shard_that_was_written_again_is_read_by_its_new_index(tmp_path: Path, left: list[int]) -> None:
    stored = write(tmp_path, **SHARDS, compressors=None)
    stored[0:24] = 1  # not stored: the chunks after them begin earlier
    array = opened(tmp_path)
    assert (array.read(24, 48) == VALUES[24:48]).all()
    stored[0:24] = VALUES[0:24]
    assert (array.read(0, 48) == VALUES[:48]).all()
    assert not left


@pytest.mark.parametrize("place", [0, 1])
def test_an_index_that_names_what_is_not_in_the_file_is_left_to_zarr_python(tmp_path: Path, place: int) -> None:
    """Its checksum is right, as of a file that somebody has made; nothing of that size is allocated."""
    stored = write(tmp_path, **SHARDS)
    path = tmp_path / "a.zarr/c/0/0/0"
    content = path.read_bytes()
    index = np.frombuffer(content[-84:-4], "<u8").copy()
    index[2 * 3 + place] = 2**62
    path.write_bytes(content[:-84] + index.tobytes() + google_crc32c.value(index.tobytes()).to_bytes(4, "little"))
    array = opened(tmp_path)
    assert (array.read(0, 24) == VALUES[:24]).all()
    assert_same(array, slice(24, 32), stored)


def test_an_index_whose_chunks_overlap_reads_nothing_beyond_what_was_fetched(tmp_path: Path, server: str) -> None:
    """The second chunk is inside of the first one, and ends before it."""
    write(tmp_path, **SHARDS, compressors=None)
    path = tmp_path / "a.zarr/c/0/0/0"
    content = path.read_bytes()
    index = np.frombuffer(content[-84:-4], "<u8").copy()
    index[2:4] = index[0] + 10, 20
    path.write_bytes(content[:-84] + index.tobytes() + google_crc32c.value(index.tobytes()).to_bytes(4, "little"))
    array = remote(server)
    buffer = np.zeros((2, *VALUES[:8].shape), array.dtype)
    with pytest.raises(StoreError, match="rows 8 to 16 of array cannot be read"):
        array.chunks_into(np.arange(2), buffer, np.arange(2))
    assert (buffer[0] == VALUES[:8]).all()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with served(partial(Ranges, directory=tmp_path)) as address:
        yield f"{address}/a.zarr"


def remote(address: str) -> ForeignArray:
    array = open_zarr(address).fields(range(len(VALUES)))["array"]
    Ranges.asked.clear()
    return array


@pytest.mark.parametrize("form", [form for form in ORDINARY if "shards" in form])
def test_neighbours_in_a_shard_are_fetched_by_one_request(
    tmp_path: Path, left: list[int], server: str, form: str
) -> None:
    expected: Any = np.asarray(write(tmp_path, **ORDINARY[form])[:])
    array = remote(server)
    assert (chunks_of(array)[: len(expected)] == expected).all()
    assert not left
    indexes, pairs, across_shards = 6, 13, 3
    assert len(Ranges.asked) == indexes + pairs + across_shards
    assert (array.read(31, 90) == expected[31:90]).all()
    assert len(Ranges.asked) == indexes + pairs + across_shards + 9  # chunks one by one, and no index again


@pytest.mark.parametrize("form", ["v3", "v3 plain", "v2", "chunks of 1"])
def test_chunks_are_fetched_once_each_and_missing_ones_are_the_fill_value(
    tmp_path: Path, left: list[int], server: str, form: str
) -> None:
    write(tmp_path, **ORDINARY[form])
    array = remote(server)
    assert (chunks_of(array)[: len(VALUES)] == VALUES).all()
    assert not left
    assert Counter(Ranges.asked).most_common(1)[0][1] == 1
    assert len(Ranges.asked) == array.chunks
    stored = zarr.open_array(tmp_path / "a.zarr")
    stored[16:24] = 1
    assert (chunks_of(array)[: len(VALUES)] == np.asarray(stored[:])).all()
    assert left


def test_an_index_is_asked_for_again_after_a_request_that_failed(
    tmp_path: Path, left: list[int], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, **SHARDS)
    array = remote(server)
    with monkeypatch.context() as failing:
        failing.setattr(RemoteFiles, "pin", Mock(side_effect=StoreError("no answer")))
        assert (array.read(0, 40) == VALUES[:40]).all()
    assert left
    left.clear()
    assert (array.read(0, 40) == VALUES[:40]).all()
    assert not left


def test_no_thread_fetches_more_than_two_chunks_at_a_time(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the loader counts, also where each range of rows is of two."""
    write(tmp_path)
    together: list[int] = []
    whole: Callable[..., Any] = RemoteFiles.whole

    def recorded(self: RemoteFiles, names: Sequence[str]) -> Any:
        together.append(len(names))
        return whole(self, names)

    monkeypatch.setattr(RemoteFiles, "whole", recorded)
    for rows in ((0, 205), (3, 203)):
        array = open_zarr(server, rows=rows).fields(range(*rows))["array"]
        together.clear()
        assert (chunks_of(array)[: len(array)] == VALUES[slice(*rows)]).all()
        assert max(together) == 2


def test_what_is_not_on_the_server_as_it_was_is_read_as_it_is(tmp_path: Path, left: list[int], server: str) -> None:
    stored = write(tmp_path, **SHARDS, compressors=None)
    array = remote(server)
    assert (array.read() == VALUES).all()
    stored[8:24] = 1  # not stored: the chunks after them begin earlier
    stored[120:160] = 1
    assert (array.read() == np.asarray(stored[:])).all()
    assert left
    left.clear()
    assert (array.read(0, 40) == np.asarray(stored[:40])).all()
    assert left == [8, 16]
    path = tmp_path / "a.zarr/c/0/0/0"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match=r"a.zarr: rows 24 to 32 of array cannot be read"):
        array.read(24, 32)
