"""A store holds what was appended, in the bytes that zarr-python would have written."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import zarr

from outofcore.store.codecs import CodecName
from outofcore.store.schema import Layout
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter
from tests.store.conftest import SCHEMA, batch

CODECS = get_args(CodecName)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("pipeline", ["", "zarrs.ZarrsCodecPipeline"])
def test_any_zarr_library_reads_what_was_appended(make_store: Callable[..., Path], codec: str, pipeline: str) -> None:
    if "zarrs" in pipeline:
        import zarrs  # noqa: F401 - registers the pipeline
    path = make_store(layout=Layout(codec=codec, chunk_rows=64, shard_rows=256))
    rng = np.random.default_rng(0)
    parts = [batch(lengths, rng) for lengths in [[10, 300], [1, 63, 640], [5]]]
    with zarr.config.set({"codec_pipeline.path": pipeline} if pipeline else {}):
        group = zarr.open_group(path / "train", mode="r")
        for name in ("boards", "move", "clock"):
            np.testing.assert_array_equal(group[name][:], np.concatenate([rows[name] for rows, _ in parts]))
        sequences = group["sequences"]
        assert sequences["length"][:].tolist() == [10, 300, 1, 63, 640, 5]
        assert sequences["start"][:].tolist() == [0, 10, 310, 311, 374, 1014]
        assert sequences["title"][:].tolist() == [title for _, columns in parts for title in columns["title"]]


@pytest.mark.parametrize("codec", CODECS)
def test_shards_are_the_bytes_that_zarr_python_writes(
    make_store: Callable[..., Path], tmp_path: Path, codec: str
) -> None:
    path = make_store(layout=Layout(codec=codec, level=3, chunk_rows=64, shard_rows=256))
    compared = 0
    for metadata in sorted(path.rglob("zarr.json")):
        array = zarr.open(metadata.parent, mode="r")
        if not isinstance(array, zarr.Array):
            continue
        other = tmp_path / "other" / metadata.parent.relative_to(path)
        other.mkdir(parents=True)
        (other / "zarr.json").write_bytes(metadata.read_bytes())
        zarr.open_array(other, mode="r+")[:] = array[:]
        written = {file.name: file.read_bytes() for file in metadata.parent.glob("c.*")}
        assert written == {file.name: file.read_bytes() for file in other.glob("c.*")}
        compared += len(written)
    assert compared > 20


@pytest.mark.parametrize("parts", [("",) * 5, ("a", "a", "zarr.b", "zarr.c", "zarr.c")])
def test_a_writer_goes_on_from_a_snapshot_with_the_same_bytes(
    tmp_path: Path, encoders: ThreadPoolExecutor, parts: tuple[str, ...]
) -> None:
    names = sorted(set(parts))
    pieces = [[10, 300], [1, 63, 640], [5], [700], [2, 3]]

    def write(work: Path, final: Path, stop_after: int | None) -> bytes:
        def fresh() -> StoreWriter:
            layout = Layout(chunk_rows=64, shard_rows=256)
            return StoreWriter(work, dict.fromkeys(names, SCHEMA), layout, ("train", "val"), encoders)

        writer, rng = fresh(), np.random.default_rng(1)
        for number, lengths in enumerate(pieces):
            writer.append(parts[number], "train", *batch(lengths, rng))
            if number == stop_after:
                state = writer.snapshot()
                writer.append(parts[number], "train", *batch([999], np.random.default_rng(9)))  # lost with the process
                writer.abandon()
                writer = fresh()
                writer.restore(*state)
        sources = {name: np.array(["x"], object) for name in ("name", "digest")}
        sources |= {name: np.array([1]) for name in ("bytes", "found", "accepted", "rejected")}
        with Target(final) as target:
            writer.commit(target, {"domain": "chess", "parts": names, "splits": ["train", "val"]}, sources)
        return (final / "seal.json").read_bytes()

    expected = write(tmp_path / "w", tmp_path / "a.zarr", None)
    for stop in range(len(pieces)):
        assert write(tmp_path / f"w{stop}", tmp_path / f"b{stop}.zarr", stop) == expected


def test_parts_that_have_ended_keep_neither_rows_nor_open_files(tmp_path: Path, encoders: ThreadPoolExecutor) -> None:
    parts = [f"session {number}" for number in range(40)]
    layout = Layout(chunk_rows=64, shard_rows=256)
    writer = StoreWriter(tmp_path / "w", dict.fromkeys(parts, SCHEMA), layout, ("train", "val"), encoders)
    held = []
    for part in parts:
        for split in ("train", "val"):
            writer.append(part, split, *batch([63, 64], np.random.default_rng(0)))
        waiting = sum(table["waiting"] for table in writer.snapshot()[0].values())
        held.append((waiting, len(os.listdir("/proc/self/fd"))))  # noqa: PTH208
    assert held[-1] == held[1]
    with pytest.raises(ValueError, match="part session 3: more rows after those of part session 39"):
        writer.append("session 3", "train", *batch([1], np.random.default_rng(0)))
    writer.abandon()


def test_nothing_is_left_of_metadata_whose_writing_was_stopped(tmp_path: Path, encoders: ThreadPoolExecutor) -> None:
    writer = StoreWriter(tmp_path / "w", {"": SCHEMA}, Layout(chunk_rows=64, shard_rows=64), ("train",), encoders)
    writer.append("", "train", *batch([4, 70], np.random.default_rng(0)))
    for stale in ("zarr.json", "train/zarr.0a1b.partial", "train/move/zarr.0a1b.partial"):
        (tmp_path / "w" / stale).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "w" / stale).write_text("{")
    sources = {name: np.array(["x"], object) for name in ("name", "digest")}
    sources |= {name: np.array([1]) for name in ("bytes", "found", "accepted", "rejected")}
    with Target(tmp_path / "a.zarr") as target:
        seal = writer.commit(target, {"domain": "chess", "parts": [""], "splits": ["train"]}, sources)
    found = {path.relative_to(tmp_path / "a.zarr").as_posix() for path in (tmp_path / "a.zarr").rglob("*")}
    assert {name for name in found if (tmp_path / "a.zarr" / name).is_file()} == {*seal.files, "seal.json"}
