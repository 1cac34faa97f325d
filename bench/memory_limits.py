"""What do a cold page cache and a limit on memory leave of the loader's speed?

    sudo python bench/memory_limits.py data/stores/chess.zarr

``warm``     the store's files are in the page cache
``cold``     they are dropped from it before the epoch, and that they are gone is checked
``+25 %``    a memory cgroup allows the process what it takes idle and a quarter of the decoded split, cold
``+10 %``    the same with a tenth

Cgroups (version 1) need root; without them the last two are left out. Each way reads ``--batches`` batches of planes
in a new process, in turn, ``--rounds`` times.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from harness.arrays import CHESS, batch_of
from harness.results import Row, arguments, save
from harness.sides import held, once
from outofcore.loading.loader import loader
from outofcore.store.reader import open_store

CGROUPS = Path("/sys/fs/cgroup/memory")
WAYS = {"warm": None, "cold": None, "+25 %": 0.25, "+10 %": 0.10}
LABELS = {
    "warm": "warm: in the page cache",
    "cold": "cold: dropped from it",
    "+25 %": "cold, in a memory cgroup with room for a quarter of the split",
    "+10 %": "cold, in a memory cgroup with room for a tenth of the split",
}
BATCH, MEMORY = batch_of("chess"), "128MiB"


def cached_share(files: list[Path]) -> float:
    """Which share of the files' pages is in the page cache, by mincore."""
    libc = ctypes.CDLL(None, use_errno=True)
    present = pages = 0
    for file in files:
        size = file.stat().st_size
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as content,
        ):
            count = -(-size // mmap.PAGESIZE)
            vector = (ctypes.c_ubyte * count)()
            start = ctypes.addressof(ctypes.c_char.from_buffer(content))
            if libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(size), vector):
                raise OSError(ctypes.get_errno(), "mincore")
            present += sum(page & 1 for page in vector)
            pages += count
    return present / max(pages, 1)


def evict(files: list[Path]) -> None:
    """Drop the files from the page cache."""
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(store: str, way: str, batches: int) -> dict[str, Any]:
    """One way, in this process."""
    table = open_store(store).rows("train")
    files = sorted(
        file for name in CHESS.fields for file in Path(store, "train", name).rglob("*") if file.name.startswith("c.")
    )
    source = loader(store, "val", BATCH, tensors=CHESS, memory=MEMORY, residency="streamed")
    for _, _ in zip(range(8), source, strict=False):  # compiled, imported
        pass
    source.close()
    group = CGROUPS / f"outofcore-{os.getpid()}"
    share = WAYS[way]
    if share is not None:
        decoded = sum(table[name].row_bytes for name in CHESS.fields) * len(table)
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(int(held()[0] + share * decoded)))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    if way != "warm":
        evict(files)
    cached = cached_share(files)
    if way != "warm" and cached > 0.01:
        message = f"{cached:.0%} of the store is still in the page cache"
        raise RuntimeError(message)
    source = loader(store, "train", BATCH, tensors=CHESS, memory=MEMORY, residency="streamed")
    samples, started = 0, time.perf_counter()
    for _, batch in zip(range(batches), source, strict=False):
        samples += len(batch["target"])
    took = time.perf_counter() - started
    source.close()
    figures = {"samples_per_second": samples / took, "cached_before": cached, "bytes_read": source.stats.bytes_read}
    if share is not None:
        figures["limit_mb"] = int((group / "memory.limit_in_bytes").read_text()) / 1e6
        (CGROUPS / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()
    return figures


def main() -> None:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("store", type=Path, help="a chess store")
    parser.add_argument("--batches", type=int, default=5000)
    given = parser.parse_args()
    limits = os.geteuid() == 0 and (CGROUPS / "memory.limit_in_bytes").exists()
    found: dict[str, list[dict[str, Any]]] = {way: [] for way, share in WAYS.items() if limits or share is None}
    for _ in range(given.rounds):
        for way, figures in found.items():
            figures.append(once(read, store=given.store, way=way, batches=given.batches))
    medians = {way: {name: median(each[name] for each in all_) for name in all_[0]} for way, all_ in found.items()}
    rows = []
    for way, each in medians.items():
        speed = each["samples_per_second"]
        ratio = speed / medians["warm"]["samples_per_second"]
        rows.append(Row(label=LABELS[way], value=speed, unit="samples/s", ratio=ratio, against="warm"))
        rows.append(Row(label=LABELS[way], value=f"{each['cached_before']:.0%}", of="cached before"))
        if "limit_mb" in each:
            rows.append(Row(label=LABELS[way], value=each["limit_mb"], unit="MB allowed to the process"))
    facts = (
        f"{given.batches:,} batches of {BATCH:,} positions, a budget of {MEMORY}",
        f"medians of {given.rounds} runs",
    )
    save(given.out, "memory_limits", "a cold page cache, and limits on memory", rows, facts=facts, details=found)


if __name__ == "__main__":
    main()
