"""How fast are shuffled batches from a disk, where the data is not in memory and does not fit there?

    PYTHONPATH=bench python -m rivals.cold --folder /somewhere/on/the/disk --peers peers/bin/python     (Linux, as root)

Frames of 64 x 64 bytes that do not compress, in the form of each side: 4 GiB by default. A side runs by itself, in a
control group of 900 MB that counts the page cache too, after the files were dropped from the cache; its rate is that of
batches of 256 rows, from the first on. outofcore has a budget of 256 MiB and two threads, the others two worker
processes. outofcore and litdata shuffle within what they hold, the others over all rows. The disk's own rate is that
of sequential reads of 16 MiB, four at a time and past the cache, in the same minutes. What a side needs is imported in
its function, as other libraries run in an environment of their own.
"""

from __future__ import annotations

import argparse
import mmap
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from harness.sides import once, tell

BATCH, ROW, STEP = 256, (64, 64), 4096
LIMIT = 900_000_000
WORKERS = 2  # processes of the other sides
DIRECT_BYTES, DIRECT_READS = 16 << 20, 4
PEERS = ("litdata", "mosaicml-streaming")


def frames(rows: int) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Random frames, so many at a time."""
    bits = np.random.SFC64(7)
    for _ in range(rows // STEP):
        yield bits.random_raw(STEP * 512).view(np.uint8).reshape(STEP, *ROW)


def write(kind: str, path: str, rows: int) -> None:
    """The frames in the form of a side."""
    if kind == "outofcore":
        from outofcore import write_store

        write_store(path, ({"x": block} for block in frames(rows)))
    elif kind == "memmap":
        out = np.lib.format.open_memmap(path, "w+", np.uint8, (rows, *ROW))
        for start, block in zip(range(0, rows, STEP), frames(rows), strict=True):
            out[start : start + STEP] = block
    elif kind == "h5py":
        import h5py

        with h5py.File(path, "w") as file:
            data = file.create_dataset("x", (rows, *ROW), np.uint8, chunks=(64, *ROW))
            for start, block in zip(range(0, rows, STEP), frames(rows), strict=True):
                data[start : start + STEP] = block
    elif kind == "zarr-python":
        import zarr

        array = zarr.create_array(path, shape=(rows, *ROW), dtype="u1", chunks=(64, *ROW), shards=(STEP, *ROW))
        for start, block in zip(range(0, rows, STEP), frames(rows), strict=True):
            array[start : start + STEP] = block
    elif kind == "litdata":
        from litdata.streaming.writer import BinaryWriter

        writer = BinaryWriter(path, chunk_bytes="64MB")
        for number, row in enumerate(row for block in frames(rows) for row in block):
            writer.add_item(number, row.tobytes())
        writer.done()
        writer.merge()
    else:
        import streaming

        with streaming.MDSWriter(out=path, columns={"row": "bytes"}, size_limit=1 << 26) as writer:
            for block in frames(rows):
                for row in block:
                    writer.write({"row": row.tobytes()})
    os.sync()


def rate(kind: str, path: str, seconds: float, group: str) -> float:
    """MB/s of batches, of a process that has joined a control group."""
    if group:
        Path(group, "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")
    batches, first, size = iter(READERS[kind](path)), next, 0
    first(batches)
    started = time.perf_counter()
    while (took := time.perf_counter() - started) < seconds:
        batch = next(batches, None)
        if batch is None:
            break
        size += batch.nbytes
    return size / took / 1e6


def outofcore(path: str) -> Iterable[Any]:
    from outofcore import loader

    return (batch["x"] for batch in loader(path, "train", BATCH, memory="256MiB", threads=2, residency="streamed"))


class Rows:
    """Rows by number, of a file that each worker opens for itself."""

    def __init__(self, open_rows: Callable[[], Any], count: int) -> None:
        self._open_rows, self._rows, self._count = open_rows, None, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Any:
        import torch

        if self._rows is None:
            self._rows = self._open_rows()
        return torch.from_numpy(np.array(self._rows[number]))


def by_row(open_rows: Callable[[], Any], path: str) -> Iterable[Any]:
    """What people write: a Dataset of single rows, shuffled by a DataLoader with two workers."""
    from torch.utils.data import DataLoader

    count = sum(file.stat().st_size for file in files(Path(path))) // 4096  # not opened here: workers are forked
    return DataLoader(Rows(open_rows, count // STEP * STEP), BATCH, shuffle=True, num_workers=WORKERS)  # type: ignore[arg-type, type-var]


def memmap(path: str) -> Iterable[Any]:
    return by_row(lambda: np.load(path, mmap_mode="r"), path)


def h5py_rows(path: str) -> Iterable[Any]:
    import h5py

    return by_row(lambda: h5py.File(path)["x"], path)


def zarr_rows(path: str) -> Iterable[Any]:
    import zarr

    return by_row(lambda: zarr.open_array(path, mode="r"), path)


def joined(rows: list[Any]) -> Any:
    import torch

    parts = [row["row"] if isinstance(row, dict) else row for row in rows]
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).view(-1, *ROW)


def litdata(path: str) -> Iterable[Any]:
    from litdata import StreamingDataLoader, StreamingDataset

    data = StreamingDataset(path, shuffle=True)
    return StreamingDataLoader(data, batch_size=BATCH, num_workers=WORKERS, collate_fn=joined)


def mosaicml(path: str) -> Iterable[Any]:
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    data = StreamingDataset(local=path, shuffle=True, batch_size=BATCH)
    return DataLoader(data, BATCH, num_workers=WORKERS, collate_fn=joined)


READERS: dict[str, Callable[[str], Iterable[Any]]] = {
    "outofcore": outofcore,
    "memmap": memmap,
    "h5py": h5py_rows,
    "zarr-python": zarr_rows,
    "litdata": litdata,
    "mosaicml-streaming": mosaicml,
}


def files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def drop(path: Path) -> None:
    """Take files out of the page cache."""
    for file in files(path):
        number = os.open(file, os.O_RDONLY)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)


def disk(path: Path, seconds: float) -> float:
    """MB/s of large sequential reads past the cache."""
    places = cycle(
        (os.open(file, os.O_RDONLY | os.O_DIRECT), offset)
        for file in files(path)
        for offset in range(0, file.stat().st_size - DIRECT_BYTES, DIRECT_BYTES)
    )
    lock, size, started = threading.Lock(), 0, time.perf_counter()

    def read() -> None:
        nonlocal size
        room = mmap.mmap(-1, DIRECT_BYTES)
        while time.perf_counter() - started < seconds:
            with lock:
                number, offset = next(places)
            got = os.preadv(number, [room], offset)
            with lock:
                size += got

    threads = [threading.Thread(target=read) for _ in range(DIRECT_READS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return size / (time.perf_counter() - started) / 1e6


def control_group(limit: int) -> Path | None:
    """A new group with so much memory, of control groups version 1 or 2; None where none can be made."""
    names = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes", Path("/sys/fs/cgroup"): "memory.max"}
    for folder, name in names.items():
        group = folder / f"outofcore-cold-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
            (group / name).write_text(str(limit), encoding="utf-8")
            return group
    return None


def measure(
    kind: str, python: Path, rows: int, given: argparse.Namespace, group: Path | None
) -> dict[str, list[float]]:
    """MB/s of a side, and of the disk just before, in each round."""
    measured: dict[str, list[float]] = {"rates": [], "disk": []}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        place = Path(folder, kind)
        tell(f"writing {kind}")
        once(write, python, kind=kind, path=str(place), rows=rows)
        for number in range(given.rounds):
            tell(f"{kind}, round {number + 1} of {given.rounds}")
            drop(place)
            measured["disk"].append(disk(place, given.seconds / 3))
            of = {"kind": kind, "path": str(place), "seconds": given.seconds, "group": str(group or "")}
            measured["rates"].append(once(rate, python, **of))
    return measured


def main() -> None:
    from harness.results import Row, arguments, save, versions_of

    parser = arguments(__doc__, rounds=3, seconds=6.0)
    parser.add_argument("--peers", type=Path, help="a Python that has bench/rivals/peers.txt installed")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--gigabytes", type=float, default=4.0)
    given = parser.parse_args()
    versions = versions_of(given.peers, PEERS) if given.peers else {}
    rows_stored = int(given.gigabytes * 2**30) // 4096 // STEP * STEP
    group, measured = control_group(LIMIT), dict[str, dict[str, list[float]]]()
    if group is None:
        tell("no control group can be made: the page cache is not limited")
    try:
        for kind in READERS:
            if kind not in PEERS or kind in versions:
                python = given.peers.absolute() if kind in PEERS else Path(sys.executable)
                measured[kind] = measure(kind, python, rows_stored, given, group)
    finally:
        if group is not None:
            group.rmdir()
    rows = []
    for kind, of in measured.items():
        share = median(mine / its for mine, its in zip(of["rates"], of["disk"], strict=True))
        ratio = {"ratio": share, "against": "the disk"}
        rows.append(Row(label=kind, table="cold", value=round(median(of["rates"]), 1), unit="MB/s", **ratio))
        rows.append(Row(label=kind, table="cold", value=round(median(of["disk"])), unit="MB/s of the disk"))
    limited = f"in {LIMIT / 1e6:,.0f} MB, page cache included" if group else "page cache not limited"
    save(
        given.out,
        "cold",
        "Shuffled batches from a disk",
        rows,
        facts=(f"{rows_stored:,} rows of 4 KiB, {limited}", f"medians of {given.rounds} rounds"),
        details={"sides": measured},
        versions=versions,
    )


if __name__ == "__main__":
    main()
