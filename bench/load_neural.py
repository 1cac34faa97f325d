"""Lag windows of neural recordings: the five ways of keeping them, beside a list of sessions in memory.

    python bench/load_neural.py --gigabytes 1.2
    python bench/load_neural.py --gigabytes 12 --folder /big/disk

Six sessions of unequal size are made (frames of 36 x 64 uint8, spikes, trials), converted, and read as shuffled batches
of 256 windows of 32 lags. Every way stands in a process of its own; they take turns of a few seconds, so that what else
the machine does hits all of them, and a figure is the median of their turns. Memory is what the process and its
children take beyond what they took with everything imported (anonymous and shared pages, each counted once; pages of
mapped files are given apart, the system takes them back when it needs them).

``old way``: all sessions as uint8 tensors in a list, ``torch.utils.data.DataLoader``, a window at a time, cast to
float32 in ``__getitem__``. ``index_select``: the least that any loader could do, rows of one tensor in memory gathered
into a batch that is already there, with as many threads; and into a new batch each time, as a loader has to.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import torch

from converting import convert_files
from neural_sessions import BATCH, HEIGHT, LAGS, WIDTH, make_sessions, section_of
from neural_ways import Case, Pages, Worker, in_a_process, open_batches
from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.params import NeuralSection
from outofcore.raw.files import find_files
from outofcore.sizes import format_bytes, parse_bytes
from outofcore.store.reader import Store, open_store
from outofcore.training.loaders import open_loaders
from outofcore.training.loop import fit
from outofcore.training.memory import MemoryWatch
from record import Row, memory_row, save

RAM = "ram, bfloat16"
SELECT = "index_select, 2 threads, the same batch again"
SELECT_NEW = "index_select, 2 threads, a new batch"
LARGEST_EPOCH = 2.0
"""Gigabytes up to which the bytes of an epoch of the train split are counted, beyond that of the val split."""
SPARE = 4 << 30
"""Memory that is left to others when it is decided which ways can be tried."""


def convert_sessions(section: NeuralSection, store: Path) -> dict[str, Any]:
    """Convert, and say how long it took and how much memory."""
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section="neural")
    made = convert_files(DOMAIN, section, files, store)
    return {
        "codec": section.store.codec,
        "stimulus_dtype": section.source.stimulus_dtype,
        "seconds": round(made.seconds, 1),
        "store_bytes": made.figures["bytes_store"],
        "rows": made.rows,
        "peak_rss_bytes": made.memory.peak_rss_bytes,
        "audited": made.figures["audited"],
        "audit_differences": made.figures["audit_differences"],
    }


def train_on(section: NeuralSection, path: Path, memory: int) -> dict[str, Any]:
    """Train sixty steps and validate."""
    store = open_store(path)
    task = DOMAIN.task(store, section)
    reading = DOMAIN.reading(store.attributes, section)
    device = torch.device("cpu")
    before = Pages.of(os.getpid())
    loaders = open_loaders(store, task, reading, section.train, memory=memory, residency="auto", device=device)
    with tempfile.TemporaryDirectory() as out, MemoryWatch(interval=0.1) as watch:
        figures = fit(task, *loaders, section.train, name="neural", out=Path(out), identity={}, device="cpu", threads=2)
    return {
        "steps": figures["steps"],
        "bits_per_spike": figures["bits_per_spike"],
        "memory_budget": memory,
        "peak_rss_bytes": watch.peak_rss_bytes,
        "of_it_before": before.own + before.file,
    }


def bytes_read(case: Case) -> dict[str, float]:
    """Bytes that an epoch reads from the store, against those of the distinct frames that it delivers."""
    store = open_store(case.store)
    distinct = 0
    for part in store.parts:
        sequences = store.sequences(case.split, part).read()
        distinct += int(sequences["length"][sequences["length"] >= LAGS].sum()) * HEIGHT * WIDTH
    start, counted = open_batches(case)
    for _ in start():
        pass
    return {"distinct_frame_bytes": distinct, "bytes_read": counted()["bytes_read"]}


def measure(cases: list[Case], turns: int, seconds: float) -> list[dict[str, Any]]:
    """Speed and memory of cases that take turns."""
    workers: list[Worker] = []
    try:
        for case in cases:
            tell(f"opening {case.name}")
            workers.append(Worker(case))
            workers[-1].turn(seconds, measured=False)
        for turn in range(turns):
            tell(f"turn {turn + 1} of {turns}")
            for worker in workers:
                worker.turn(seconds)
        for worker in workers:
            worker.turn(seconds, measured=False)
    finally:
        for worker in workers:
            worker.close()
    return [
        {
            "way": worker.case.name,
            "windows_per_second": round(statistics.median(worker.speeds)),
            "lowest_and_highest": [round(min(worker.speeds)), round(max(worker.speeds))],
            "gigabytes_per_second": round(statistics.median(worker.bytes) / 1e9, 2),
            "gigabytes_per_core_second": round(statistics.median(worker.bytes_by_work) / 1e9, 2),
            **(
                {"budget": worker.case.memory}
                if worker.case.residency in {"streamed", "hybrid"} and worker.case.kind == "loader"
                else {}
            ),
            "own_bytes": max(worker.peak.own, 0),
            "file_bytes": max(worker.peak.file, 0),
            "by_turn": [round(speed) for speed in worker.speeds],
        }
        for worker in workers
    ]


def room() -> int:
    """Memory that may be taken."""
    return max(0, psutil.virtual_memory().available - SPARE)


def tell(what: str) -> None:
    """Say what is being done."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def decoded_bytes(store: Store) -> int:
    """Decoded bytes of the train split of all sessions."""
    tables = [store.rows("train", part) for part in store.parts]
    return sum(array.row_bytes * len(array) for table in tables for array in table.fields.values())


def cases(raw: Path, stores: dict[str, Path]) -> list[tuple[Case, int]]:
    """What is compared, and the memory that each takes about."""
    narrow = decoded_bytes(open_store(stores["lz4"]))
    part = min(narrow // 2, 1 << 29)
    streamed = Case("streamed, lz4", "loader", section_of(raw, "lz4"), stores["lz4"])
    smaller = section_of(raw, "lz4", transforms=({"name": "downsample", "factor": 2},))
    old = replace(streamed, name="old way, 2 worker processes", kind="old", memory=narrow)
    ours = [
        streamed,
        replace(streamed, name="streamed, lz4, cast to float32", cast=True),
        replace(streamed, name="streamed, zstd", section=section_of(raw, "zstd"), store=stores["zstd"]),
        replace(streamed, name="transforms at read: downsample by 2, cast", section=smaller, cast=True),
        replace(streamed, name="hybrid, lz4", residency="hybrid", memory=streamed.memory + part),
        replace(streamed, name="mapped", section=section_of(raw, "none"), store=stores["none"], residency="mapped"),
    ]
    beside = [
        replace(streamed, name=SELECT, kind="select", memory=1 << 29),
        replace(streamed, name=SELECT_NEW, kind="select new", memory=1 << 30),
        old,
        replace(old, name="old way, no worker process", threads=0),
    ]
    if "bfloat16" in stores:
        held = decoded_bytes(open_store(stores["bfloat16"])) + (2 << 30)
        wide = section_of(raw, "zstd", "bfloat16")
        beside.append(Case(RAM, "loader", wide, stores["bfloat16"], residency="ram", memory=held))
    return [(case, case.memory) for case in (*ours, *beside)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.6, help="of frames, as uint8")
    parser.add_argument("--folder", type=Path, help="where sessions and stores stand for the while")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn")
    parser.add_argument("--memory", default="1700MiB", help="the budget of the training run")
    parser.add_argument("--name", default="load_neural", help="of the file of results")
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="load_neural_", dir=options.folder))
    try:
        result = run(options, folder)
    finally:
        shutil.rmtree(folder)
    save(options.out, options.name, "neural: lag windows", table(result), facts=facts(result), details=result)


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All measurements."""
    raw = folder / "raw"
    raw.mkdir()
    tell("making sessions")
    in_a_process(make_sessions, raw, int(options.gigabytes * 1e9))
    stores = {name: folder / f"{name}.zarr" for name in ("lz4", "zstd", "none", "bfloat16")}
    sections = {name: section_of(raw, name) for name in ("lz4", "zstd", "none")}
    sections["bfloat16"] = section_of(raw, "zstd", "bfloat16")
    converted = {}
    if 2 * options.gigabytes * 1e9 > room():
        del stores["bfloat16"]
    for name, store in stores.items():
        tell(f"converting: {name}")
        converted[name] = in_a_process(convert_sessions, sections[name], store)
    wide = 2 * converted["none"]["rows"] * HEIGHT * WIDTH
    tried, left_out = [], {} if "bfloat16" in stores else {RAM: f"needs {format_bytes(wide)}"}
    free = room()
    for case, needed in cases(raw, stores):
        if needed <= free:
            tried.append(case)
            free -= needed
        else:
            left_out[case.name] = f"needs {format_bytes(needed)}, {format_bytes(max(free, 0))} are left"
    tell("training, and an epoch")
    split = "train" if options.gigabytes <= LARGEST_EPOCH else "val"
    return {
        "sessions": [int(file.stat().st_size) for file in sorted(raw.iterdir())],
        "frames_bytes": converted["none"]["rows"] * HEIGHT * WIDTH,
        "conversions": converted,
        "training": in_a_process(train_on, sections["lz4"], stores["lz4"], parse_bytes(options.memory)),
        "epoch": in_a_process(bytes_read, Case("", "loader", sections["none"], stores["none"], split=split)),
        "ways": measure(tried, options.turns, options.seconds),
        "left_out": left_out,
        "turns": options.turns,
    }


def facts(result: dict[str, Any]) -> list[str]:
    """What was measured, in words."""
    training, epoch = result["training"], result["epoch"]
    budget, peak, before = (
        format_bytes(training[name]) for name in ("memory_budget", "peak_rss_bytes", "of_it_before")
    )
    return [
        f"{len(result['sessions'])} sessions, {format_bytes(result['frames_bytes'])} of frames as uint8",
        f"windows of {LAGS} lags of {HEIGHT} x {WIDTH}, batches of {BATCH}",
        f"medians of {result['turns']} turns",
        f"an epoch reads {epoch['bytes_read'] / epoch['distinct_frame_bytes']:.3f} times its distinct frames",
        f"training in a budget of {budget}, the whole process: {peak} at most, {before} of it before a row was read",
    ]


def table(result: dict[str, Any]) -> list[Row]:
    """The figures, the list of sessions with worker processes as the unit."""
    by_name = {way["way"]: way for way in result["ways"]}
    old = max((way["windows_per_second"] for name, way in by_name.items() if name.startswith("old")), default=None)
    rows = []
    for name, way in by_name.items():
        speed = way["windows_per_second"]
        of: dict[str, Any] = {"label": name}
        rows += [
            Row(value=speed, unit="windows/s", ratio=speed / old if old else None, against="the old way", **of),
            Row(value=way["gigabytes_per_second"], unit="GB/s", **of),
            Row(value=way["gigabytes_per_core_second"], unit="GB per core second", **of),
            Row(value=way["own_bytes"] / 1e6, unit="MB held", **of),
            Row(value=way["file_bytes"] / 1e6, unit="MB of mapped pages", **of),
        ]
        if "budget" in way:
            rows.append(memory_row(f"neural: {name}", way["own_bytes"], way["budget"]))
    rows += [Row(label=name, value=f"not tried: {why}", unit="windows/s") for name, why in result["left_out"].items()]
    for name, each in result["conversions"].items():
        of = {"label": name, "table": "conversion"}
        rows += [
            Row(value=each["seconds"], unit="seconds", **of),
            Row(value=each["store_bytes"] / 1e6, unit="MB of store", **of),
            Row(value=each["peak_rss_bytes"] / 1e6, unit="peak MB", **of),
        ]
    return rows


if __name__ == "__main__":
    main()
