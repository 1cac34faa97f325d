"""Ways of reading lag windows, each in a process of its own, and what their processes take."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from neural_sessions import BATCH, HEIGHT, LAGS, POOL_BLOCKS, WIDTH
from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.tensors import prepare
from outofcore.loading.loader import loader
from outofcore.loading.memory import Kind
from outofcore.store.reader import open_store

SELECTED_BYTES = 1 << 29
"""Frames that ``index_select`` gathers from, at most."""
IN_FLIGHT = 5
"""Batches that a loader of two threads has in memory at a time."""
READY_BATCHES = 8
"""Batches of a loader that may have been made ready while others had their turn: they pass before the clock starts."""


@dataclass
class Pages:
    """Bytes in memory of a process and its children, each page counted once."""

    own: int = 0
    file: int = 0

    @classmethod
    def of(cls, pid: int) -> Pages:
        """Those of a process now."""
        found = cls()
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            try:
                text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            sizes = {name: int(size) * 1024 for name, size in re.findall(r"^(Pss\w*):\s+(\d+) kB", text, re.MULTILINE)}
            found.own += sizes["Pss_Anon"] + sizes["Pss_Shmem"]
            found.file += sizes["Pss_File"]
        return found


@dataclass(frozen=True)
class Case:
    """One way of reading, in a process of its own.

    Attributes
    ----------
    name
        What it is called in the table.
    kind
        ``loader``, ``old``, ``select`` (into the same batch every time) or ``select new`` (into a new one).
    section
        Params of the conversion whose store it reads.
    store
        That store; for ``old`` and ``select`` where sessions are taken from.
    residency, memory
        Of the loader.
    split
        Which split the loader reads.
    cast
        Whether batches are cast to float32 (after the transforms) by whoever receives them.
    threads
        Threads of the loader, or worker processes of the old way.
    """

    name: str
    kind: str
    section: NeuralSection
    store: Path
    residency: Kind = "streamed"
    memory: int = 1 << 30
    split: str = "train"
    cast: bool = False
    threads: int = 2

    @property
    def ready(self) -> int:
        """Batches that may be ready before anybody asks: of the old way, two a worker process."""
        return {"loader": READY_BATCHES, "old": 2 * self.threads}.get(self.kind, 0)


class Sessions(torch.utils.data.Dataset):
    """The old way: a list of sessions in memory, a window at a time."""

    def __init__(self, store: Path) -> None:
        self.sessions = []
        self.places: list[tuple[int, int]] = []
        opened = open_store(store)
        for number, part in enumerate(opened.parts):
            table = opened.rows("train", part)
            fields = {name: torch.from_numpy(table[name].read()) for name in ("stim", "robs", "dfs")}
            self.sessions.append(fields)
            sequences = opened.sequences("train", part).read()
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
        made = []
        for number in range(len(self.sessions)):
            mine = generator.permutation(np.flatnonzero(of == number)).tolist()
            made += [mine[start : start + BATCH] for start in range(0, len(mine) - BATCH + 1, BATCH)]
        return [made[place] for place in generator.permutation(len(made))]


def open_batches(case: Case) -> tuple[Callable[[], Iterator[Any]], Callable[[], dict[str, int]]]:
    """What starts an epoch of a case, and what the loader has counted."""
    if case.kind == "old":
        sessions = Sessions(case.store)
        old = torch.utils.data.DataLoader(sessions, batch_sampler=sessions.batches(), num_workers=case.threads)
        return lambda: iter(old), dict
    if case.kind.startswith("select"):
        return select_batches(case), dict
    store = open_store(case.store)
    batches = loader(
        store,
        case.split,
        BATCH,
        tensors=DOMAIN.reading(store.attributes, case.section),
        window={"length": case.section.tensors.window, "mode": "never"},
        part=store.parts,
        pool_blocks=POOL_BLOCKS,
        residency=case.residency,
        memory=case.memory,
        threads=case.threads,
    )
    return lambda: iter(batches), lambda: asdict(batches.stats)


def select_batches(case: Case) -> Callable[[], Iterator[Any]]:
    """Windows gathered by torch from frames in memory, into one batch again and again, or as many as a loader holds."""
    store = open_store(case.store)
    stim = store.rows("train", store.parts[0])["stim"]
    frames = torch.from_numpy(stim.read(0, min(len(stim), SELECTED_BYTES // stim.row_bytes))).flatten(1)
    out = torch.empty(BATCH * LAGS, frames.shape[1], dtype=torch.uint8) if case.kind == "select" else None
    generator = np.random.default_rng(0)
    held: deque[torch.Tensor] = deque(maxlen=IN_FLIGHT)

    def batches() -> Iterator[Any]:
        while True:
            first = torch.from_numpy(generator.integers(0, len(frames) - LAGS, BATCH))
            rows = (first[:, None] + torch.arange(LAGS)).flatten()
            made = torch.index_select(frames, 0, rows, out=out)
            held.append(made)
            yield {"stim": made.view(BATCH, LAGS, HEIGHT, WIDTH)}

    return batches


def serve(case: Case, wire: Connection) -> None:
    """Open, then read for as long as asked, again and again."""
    Path("/proc/self/oom_score_adj").write_text("1000")
    torch.set_num_threads(case.threads if case.kind.startswith("select") else 1)
    wire.send("imported")
    wire.recv()
    start, counted = open_batches(case)
    running = start()
    wire.send("open")
    while (seconds := wire.recv()) is not None:
        windows = size = 0
        for _ in range(case.ready):
            if next(running, None) is None:
                running = start()
        began, used = time.perf_counter(), processor_seconds()
        while (spent := time.perf_counter() - began) < seconds:
            batch = next(running, None)
            if batch is None:
                running = start()
                continue
            stim = prepare(batch["stim"], case.section.tensors) if case.cast else batch["stim"]
            windows += len(stim)
            size += stim.nbytes
        wire.send((windows / spent, size / spent, size / (processor_seconds() - used), counted()))
    wire.send(None)


def processor_seconds() -> float:
    """Time that this process and its children have had a core."""
    this = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (this, *this.children(recursive=True)))


class Worker:
    """A case in its process, seen from outside."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.speeds: list[float] = []
        self.bytes: list[float] = []
        self.bytes_by_work: list[float] = []
        context = multiprocessing.get_context("spawn")
        self._wire, far = context.Pipe()
        self._process = context.Process(target=serve, args=(case, far))
        self._process.start()
        self._wire.recv()
        assert self._process.pid is not None
        self._before = Pages.of(self._process.pid)
        self.peak = Pages()
        self._ask("open")

    def turn(self, seconds: float, *, measured: bool = True) -> None:
        """Read for a while; memory is looked at in turns that are not measured."""
        answer = self._ask(seconds, watch=not measured)
        if measured:
            self.speeds.append(answer[0])
            self.bytes.append(answer[1])
            self.bytes_by_work.append(answer[2])

    def close(self) -> None:
        """End the process."""
        self._ask(None)
        self._process.join()

    def _ask(self, what: Any, *, watch: bool = True) -> Any:
        self._wire.send(what)
        while not self._wire.poll(0.25):
            if watch:
                self._look()
            if not self._process.is_alive():
                message = f"{self.case.name}: its process ended with {self._process.exitcode}"
                raise RuntimeError(message)
        if watch and what is not None:
            self._look()
        return self._wire.recv()

    def _look(self) -> None:
        now = Pages.of(self._process.pid or 0)
        self.peak.own = max(self.peak.own, now.own - self._before.own)
        self.peak.file = max(self.peak.file, now.file - self._before.file)


def in_a_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function, run in a process that ends with it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)
