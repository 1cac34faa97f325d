"""Small stores whose rows tell where they come from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from outofcore.loading.iteration import Loader
from outofcore.order.windows import Window
from outofcore.store.codecs import CodecName
from outofcore.store.reader import open_store
from outofcore.store.schema import Columns, Field, Layout, Schema
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter

SCHEMA = Schema(
    rows=(
        Field(name="id", dtype="int64", doc="number of the row"),
        Field(name="words", dtype="uint64", shape=(3,), doc="three words that follow from the number"),
        Field(name="half", dtype="uint16", doc="the number, modulo 65,521"),
        Field(name="wide", dtype="uint32", doc="the number times 60,013, modulo 2**32"),
        Field(name="sparse", dtype="int8", fill=-1, doc="-1 but for one row in a thousand"),
        Field(name="picture", dtype="uint8", shape=(5, 3), doc="fifteen bytes that follow from the number"),
    ),
    sequences=(
        Field(name="label", dtype="int16", doc="a class, sorted"),
        Field(name="name", dtype="string", fill="", doc="its name"),
    ),
)

ROWS = 3000
WINDOWS = {
    "rows": None,
    "pack": Window(length=10, stride=7),
    "never": Window(length=33, stride=4, mode="never"),
    "reach": Window(length=70, mode="reach"),
}


def moving(window: Window | None) -> Window | None:
    """The same windows, which start elsewhere each epoch."""
    return window and replace(window, phase=True)


MakeStore = Callable[..., Path]


open_once = cache(open_store)  # for stores that stay as they are: their metadata is parsed once for all loaders


def opened_once(stores: Any) -> Any:
    """The same stores, each path as a store that is open."""
    if isinstance(stores, dict):
        return {name: opened_once(source) for name, source in stores.items()}
    if isinstance(stores, list):
        return [opened_once(store) for store in stores]
    return open_once(stores) if isinstance(stores, Path) else stores


def flat(lists: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(lists))


def identities(batches: Loader) -> list[int]:
    """Last row of each sample of an epoch, in order."""
    return flat(batch["id"].reshape(len(batch["id"]), -1)[:, -1].tolist() for batch in batches)


def windows_read(batches: Loader) -> npt.NDArray[np.int64]:
    """The rows of each sample of an epoch."""
    return np.concatenate([batch["id"].numpy().reshape(len(batch["id"]), -1) for batch in batches])


def by_last_row(windows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same samples, in the order of their last rows, of which no two have the same."""
    return windows[np.argsort(windows[:, -1], kind="stable")]


def together(ranks: Sequence[Loader]) -> Iterator[list[int]]:
    """Global batches, rows sorted."""
    for batches in zip(*ranks, strict=True):
        yield sorted(flat(batch["id"].reshape(len(batch["id"]), -1)[:, -1].tolist() for batch in batches))


def threads_since(before: list[threading.Thread]) -> list[threading.Thread]:
    """Running threads that were not there before; those of other tests may end meanwhile."""
    return [thread for thread in threading.enumerate() if thread not in before]


def rows_of(number: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.generic]]:
    """What the rows of these numbers hold, in every store that is made here."""
    return {
        "id": number,
        "words": number[..., None].astype(np.uint64) * np.array([1, 2**33, 7], np.uint64) + np.uint64(2**63),
        "half": (number % 65521).astype(np.uint16),
        "wide": (number * 60013 % 2**32).astype(np.uint32),
        "sparse": np.where(number % 1000 == 7, 1, -1).astype(np.int8),
        "picture": ((number[..., None, None] + np.arange(15).reshape(5, 3)) % 251).astype(np.uint8),
    }


def write_store(
    folder: Path,
    lengths: list[int],
    *,
    codec: CodecName = "zstd",
    chunk_rows: int = 64,
    shard_rows: int = 256,
    parts: tuple[str, ...] = ("",),
    first: int = 0,
) -> Path:
    """A sealed store of sequences of these lengths, the same in every part; its ``val`` has the first one.

    Rows are numbered from ``first``.
    """
    layout = Layout(codec=codec, chunk_rows=chunk_rows, shard_rows=shard_rows)
    with ThreadPoolExecutor(2) as encoders:
        work = folder.with_suffix(".work")
        writer = StoreWriter(work, dict.fromkeys(parts, SCHEMA), layout, ("train", "val"), encoders)
        sizes = np.array(lengths, np.int64)
        columns: Columns = {
            "length": sizes,
            "label": np.arange(len(sizes)).astype(np.int16) * 10 // max(len(sizes), 1),
            "name": np.array([f"sequence {number}" for number in range(len(sizes))], object),
        }
        for part in parts:
            writer.append(part, "train", rows_of(first + np.arange(sizes.sum())), columns)
            one = {name: values[:1] for name, values in columns.items()}
            writer.append(part, "val", rows_of(first + np.arange(sizes[:1].sum())), one)
        counts = {name: np.ones(1, np.int64) for name in ("bytes", "found", "accepted", "rejected")}
        names = {name: np.array(["x"], object) for name in ("name", "digest")}
        attributes = {"domain": "numbers", "parts": list(parts), "splits": ["train", "val"]}
        with Target(folder) as target:
            writer.commit(target, attributes, {**counts, **names})
    return folder


@pytest.fixture(scope="session")
def make_store(tmp_path_factory: pytest.TempPathFactory) -> MakeStore:
    """Makes stores; equal arguments, the same store."""
    paths: dict[tuple[object, ...], Path] = {}

    def make(lengths: list[int] | None = None, **options: object) -> Path:
        lengths = lengths or [300, 1, 64, 700, 35, 1000, 900]
        arguments = (*lengths, *sorted(options.items()))
        if arguments not in paths:
            paths[arguments] = write_store(tmp_path_factory.mktemp("store") / "a.zarr", lengths, **options)  # type: ignore[arg-type]
        return paths[arguments]

    return make


class Unread:
    """A field of any number of rows, which nobody reads."""

    def __init__(self, rows: int, chunk_rows: int) -> None:
        self.chunk_rows, self.row_bytes = chunk_rows, 8
        self.chunks = -(-rows // chunk_rows)
        self._rows = rows

    def __len__(self) -> int:
        return self._rows


class Plain:
    """A reading that gives its rows away."""

    fields = ("id", "half")

    def __call__(self, rows: Mapping[str, Any], draws: Any) -> dict[str, torch.Tensor]:
        return {
            "id": torch.from_numpy(rows["id"]),
            "half": torch.from_numpy(rows["half"].astype(np.int32)),
            "random": torch.from_numpy((draws % np.uint64(1000)).astype(np.int64)),
        }
