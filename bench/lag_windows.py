"""Which way of keeping neural recordings gives lag windows fastest, compared with sessions in memory and index_select?

    python bench/lag_windows.py --gigabytes 12 --folder /big/disk

Six sessions of unequal size are made (frames of 36 x 64 uint8, spikes, trials), converted, and read as shuffled batches
of 256 windows of 32 lags.

* ``list of sessions``: the usual way. All sessions as uint8 tensors in a list, ``torch.utils.data.DataLoader``, a
  window at a time, cast to float32 in ``__getitem__``.
* ``index_select``: the least that any loader could do. Rows of one tensor in memory are gathered by two threads into a
  new batch, as a loader has to, and into the same batch again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from harness.results import Row, arguments, memory_row, save, speed_rows
from harness.sessions import BATCH, HEIGHT, LAGS, POOL_BLOCKS, WIDTH, make_sessions, sessions_section
from harness.sides import Epoch, Measured, Side, compare, memory_used, once, tell
from harness.stores import convert
from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.tensors import prepare
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from outofcore.settings.machine import Machine
from outofcore.settings.sizes import format_bytes, parse_bytes
from outofcore.store.reader import Store, open_store
from outofcore.system.peak_memory import MemoryWatch
from outofcore.training.loaders import open_loaders
from outofcore.training.loop import fit

SELECT = "index_select, 2 threads, a new batch"
SESSIONS = "list of sessions, 2 worker processes"
HALVED = [{"name": "downsample", "factor": 2}]
SELECTED_BYTES = 1 << 29  # frames that index_select gathers from, at most
IN_FLIGHT = 5  # batches that a loader of two threads holds
SPARE = 4 << 30  # memory that is left to others when it is decided which sides can be tried


def stored(
    path: str,
    residency: Any = "streamed",
    memory: int = 1 << 30,
    codec: str = "lz4",
    transforms: Any = (),
    *,
    cast: bool = False,
) -> Epoch:
    """The loader; ``cast`` widens batches to float32, after the transforms."""
    torch.set_num_threads(1)
    section = sessions_section("raw", codec, "bfloat16" if residency == "ram" else "uint8", tuple(transforms))
    batches = opened(path, section, residency, memory)

    def epoch() -> Iterator[int]:
        for batch in batches:
            yield len(prepare(batch["stim"], section.tensors) if cast else batch["stim"])

    return epoch


def opened(path: str, section: Any, residency: Any, memory: int) -> Any:
    store = open_store(path)
    return loader(
        store,
        "train",
        BATCH,
        tensors=DOMAIN.reading(store.attributes, section),
        window={"length": section.tensors.window, "mode": "never"},
        part=store.parts,
        shuffle=Shuffle(pool_blocks=POOL_BLOCKS),
        residency=residency,
        memory=memory,
        threads=2,
    )


def selected(path: str, *, again: bool) -> Epoch:
    """Windows gathered by torch into one batch again and again, or into new ones, as many as a loader holds."""
    torch.set_num_threads(2)
    store = open_store(path)
    stim = store.rows("train", store.parts[0])["stim"]
    frames = torch.from_numpy(stim.read(0, min(len(stim), SELECTED_BYTES // stim.row_bytes))).flatten(1)
    out = torch.empty(BATCH * LAGS, frames.shape[1], dtype=torch.uint8) if again else None
    generator = np.random.default_rng(0)
    kept: deque[torch.Tensor] = deque(maxlen=IN_FLIGHT)

    def epoch() -> Iterator[int]:
        while True:
            first = torch.from_numpy(generator.integers(0, len(frames) - LAGS, BATCH))
            kept.append(torch.index_select(frames, 0, (first[:, None] + torch.arange(LAGS)).flatten(), out=out))
            yield BATCH

    return epoch


class Sessions(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """A list of sessions in memory, a window at a time."""

    def __init__(self, store: Store) -> None:
        self.sessions: list[dict[str, torch.Tensor]] = []
        self.places: list[tuple[int, int]] = []
        for number, part in enumerate(store.parts):
            table = store.rows("train", part)
            self.sessions.append({name: torch.from_numpy(table[name].read()) for name in ("stim", "robs", "dfs")})
            sequences = store.sequences("train", part).read()
            for start, length in zip(sequences["start"].tolist(), sequences["length"].tolist(), strict=True):
                self.places += [(number, last) for last in range(start + LAGS - 1, start + length)]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        number, last = self.places[index]
        session = self.sessions[number]
        stim = (session["stim"][last - LAGS + 1 : last + 1].float() - 127) / 255
        return {"stim": stim, "robs": session["robs"][last].float(), "dfs": session["dfs"][last].float()}

    def batches(self) -> list[list[int]]:
        """Shuffled batches of one session each."""
        generator = np.random.default_rng(0)
        of = np.array([number for number, _ in self.places])
        batches = []
        for number in range(len(self.sessions)):
            mine = generator.permutation(np.flatnonzero(of == number)).tolist()
            batches += [mine[start : start + BATCH] for start in range(0, len(mine) - BATCH + 1, BATCH)]
        return [batches[place] for place in generator.permutation(len(batches))]


def listed(path: str, workers: int) -> Epoch:
    torch.set_num_threads(1)
    sessions = Sessions(open_store(path))
    batches = torch.utils.data.DataLoader(sessions, batch_sampler=sessions.batches(), num_workers=workers)
    return lambda: (len(batch["stim"]) for batch in batches)


def converted(raw: str, codec: str, dtype: str, store: str) -> dict[str, Any]:
    figures = convert("neural", sessions_section(raw, codec, dtype), Path(store))
    return {name: figures[name] for name in ("bytes_store", "positions", "seconds", "peak_memory_bytes", "audited")}


def trained(path: str, memory: int) -> dict[str, Any]:
    """Sixty steps of training, and a validation."""
    store, section = open_store(path), sessions_section("raw", "lz4")
    task, reading = DOMAIN.task(store, section), DOMAIN.reading(store.attributes, section)
    device = torch.device("cpu")
    before = sum(memory_used())
    loaders = open_loaders(store, task, reading, section.train, Machine(memory=memory), device)
    with tempfile.TemporaryDirectory() as out, MemoryWatch(interval=0.1) as watch:
        figures = fit(task, *loaders, section.train, name="neural", out=Path(out), identity={}, device="cpu", threads=2)
    return {"steps": figures["steps"], "peak_rss_bytes": watch.peak_rss_bytes, "of_it_before": before}


def sides(stores: dict[str, Path]) -> list[tuple[Side, int]]:
    """All sides, and about the memory that each takes."""
    narrow = decoded_bytes(stores["lz4"])
    streamed = {"path": stores["lz4"], "memory": 1 << 30}
    hybrid = (1 << 30) + min(narrow // 2, 1 << 29)
    compared = [
        (Side("streamed, lz4", stored, streamed), 1 << 30),
        (Side("streamed, lz4, cast to float32", stored, {**streamed, "cast": True}), 1 << 30),
        (Side("streamed, zstd", stored, {**streamed, "path": stores["zstd"], "codec": "zstd"}), 1 << 30),
        (Side("streamed, downsampled by 2, cast", stored, {**streamed, "transforms": HALVED, "cast": True}), 1 << 30),
        (Side("hybrid, lz4", stored, {**streamed, "residency": "hybrid", "memory": hybrid}), hybrid),
        (Side("mapped", stored, {"path": stores["none"], "codec": "none", "residency": "mapped"}), 1 << 30),
        (Side("index_select, 2 threads, the same batch", selected, {"path": stores["lz4"], "again": True}), 1 << 29),
        (Side(SELECT, selected, {"path": stores["lz4"], "again": False}), 1 << 30),
        (Side(SESSIONS, listed, {"path": stores["lz4"], "workers": 2}), narrow),
        (Side("list of sessions, no worker process", listed, {"path": stores["lz4"], "workers": 0}), narrow),
    ]
    if "bfloat16" in stores:
        wide = decoded_bytes(stores["bfloat16"]) + (2 << 30)
        ram = {"path": stores["bfloat16"], "residency": "ram", "memory": wide, "codec": "zstd"}
        compared.append((Side("ram, bfloat16", stored, ram), wide))
    return compared


def decoded_bytes(path: Path) -> int:
    store = open_store(path)
    tables = [store.rows("train", part) for part in store.parts]
    return sum(array.row_bytes * len(array) for table in tables for array in table.fields.values())


def room() -> int:
    """Memory that may be taken."""
    return max(0, psutil.virtual_memory().available - SPARE)


def main() -> None:
    parser = arguments(__doc__, rounds=7, seconds=2.0)
    parser.add_argument("--gigabytes", type=float, default=0.6, help="of frames, as uint8")
    parser.add_argument("--folder", type=Path, help="where sessions and stores are kept meanwhile")
    parser.add_argument("--memory", default="1700MiB", help="the budget of the training run")
    parser.add_argument("--name", default="lag_windows", help="of the result")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lag_windows_", dir=options.folder))
    try:
        raw = folder / "raw"
        raw.mkdir()
        tell("making sessions")
        once(make_sessions, folder=raw, size=int(options.gigabytes * 1e9))
        kinds = {"lz4": "uint8", "zstd": "uint8", "none": "uint8", "bfloat16": "bfloat16"}
        if 2 * options.gigabytes * 1e9 > room():
            del kinds["bfloat16"]
        stores, conversions = {}, {}
        for name, dtype in kinds.items():
            tell(f"converting: {name}")
            codec = name if dtype == "uint8" else "zstd"
            stores[name] = folder / f"{name}.zarr"
            conversions[name] = once(converted, raw=raw, codec=codec, dtype=dtype, store=stores[name])
        tell("training")
        training = once(trained, path=stores["lz4"], memory=parse_bytes(options.memory))
        tried, left_out, free = [], [], room()
        for side, needed in sides(stores):
            if needed <= free:
                tried.append(side)
                free -= needed
            else:
                words = f"not tried: needs {format_bytes(needed)}"
                left_out.append(Row(label=side.name, value=words, unit="windows/s"))
        measured = compare(tried, options.rounds, options.seconds)
    finally:
        shutil.rmtree(folder)
    frames = conversions["none"]["positions"] * HEIGHT * WIDTH
    peak, before = format_bytes(training["peak_rss_bytes"]), format_bytes(training["of_it_before"])
    save(
        options.out,
        options.name,
        "neural: lag windows",
        [*table(tried, measured), *left_out, *conversion_rows(conversions)],
        facts=(
            f"6 sessions, {format_bytes(frames)} of frames as uint8",
            f"windows of {LAGS} lags of {HEIGHT} x {WIDTH}, batches of {BATCH}",
            f"medians of {options.rounds} rounds",
            f"training in a budget of {options.memory}, the whole process: {peak} at most, {before} of it before",
        ),
        details={"sides": measured, "conversions": conversions, "training": training},
    )


def table(tried: list[Side], measured: dict[str, Measured]) -> list[Row]:
    """Speeds against index_select, bytes, memory."""
    against = dict.fromkeys(measured, SELECT) if SELECT in measured else {}
    rows = speed_rows(measured, "windows/s", against, work="window", short="index_select")
    for side in tried:
        result, arguments_ = measured[side.name], side.arguments
        if not result.rates:
            continue
        narrowed = 4 if arguments_.get("transforms") else 1
        wide = 4 if arguments_.get("cast") or side.function is listed else 2 if "bfloat16" in side.name else 1
        size = LAGS * HEIGHT * WIDTH * wide / narrowed
        rows.append(Row(label=side.name, value=result.rate * size / 1e9, unit="GB/s"))
        if side.function is stored and arguments_.get("residency", "streamed") in {"streamed", "hybrid"}:
            rows.append(memory_row(f"neural: {side.name}", result.held_bytes, arguments_["memory"]))
    return rows


def conversion_rows(conversions: dict[str, dict[str, Any]]) -> list[Row]:
    rows = []
    for name, figures in conversions.items():
        of = {"label": name, "table": "conversion"}
        rows += [
            Row(value=figures["seconds"], unit="seconds", **of),
            Row(value=figures["bytes_store"] / 1e6, unit="MB of store", **of),
            Row(value=figures["peak_memory_bytes"] / 1e6, unit="peak MB", **of),
        ]
    return rows


if __name__ == "__main__":
    main()
