"""What limits a conversion on more cores than this machine has?

    python bench/cores.py players.pgn.zst players.tar.zst novels.tar.zst --tokenizer data/tokenizers/text.json

A conversion by one worker is taken apart: time on a core of its driver, the thread that cuts units, receives results in
order, drops duplicates and writes; of the workers, which parse; of the encoders, which compress; and the time for which
any of them held the GIL. From these follows the time with more workers. It is checked with one and two workers, on the
cores that other programs left them.

With n workers on n cores, a conversion takes what comes before the first unit and after the last, and the longest of:

* ``driver``: its own work, and waiting for n encoders
* ``GIL``: what is done while holding it, by whichever thread
* ``cores``: all work, divided by n

Nothing is audited: audits take a process of their own, and no more of them for more input.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numba
import numpy as np
import psutil

from conversion import CHANGES, UNITS
from harness.raw import Inputs, lengthen
from harness.results import Row, arguments, save
from harness.sides import once, tell
from harness.stores import NEVER, files_of, section_of
from outofcore.conversion.estimate import Estimate
from outofcore.conversion.run import Conversion
from outofcore.domains.registry import get_domain
from outofcore.raw.unit import NO_AUDIT

NAMES = {"chess": "chess", "go": "Go", "text": "text"}
PARTS = {
    "around": "before the first unit and after the last",
    "driver": "the driver's work",
    "convert": "the workers' work",
    "encode": "the encoders' work",
    "gil": "the GIL, held by any of them",
}
MEASURED = (1, 2)  # workers
MORE_CORES = (4, 8, 16)


PROCESS = ctypes.CDLL(None)
SLEEP = PROCESS.usleep  # microseconds
SLEEP.argtypes, SLEEP.restype = [ctypes.c_uint], ctypes.c_int
# Of Python 3.11: the thread that holds the GIL, 0 if none does. Later Pythons return the calling thread.
HOLDER = PROCESS["_PyThreadState_UncheckedGet"]
HOLDER.argtypes, HOLDER.restype = [], ctypes.c_size_t


class Workers(ThreadPoolExecutor):
    """Threads whose time on a core is added up."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count
        self.times: list[float] = []

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        def timed() -> Any:
            since = time.thread_time()
            result = function(*given, **named)
            self.times.append(time.thread_time() - since)
            return result

        return super().submit(timed)


def converted(domain: str, raw: str, changes: dict[str, Any], workers: int) -> dict[str, float]:
    """Seconds of a conversion and, on cores, of its threads."""
    conversion = conversion_of(domain, raw, changes)
    pool, marks = Workers(workers), [(0.0, 0.0)]
    started, spent, own = time.perf_counter(), time.process_time(), time.thread_time()
    ran, queued = scheduled()
    busy = busy_seconds()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, gil_watched() as held:
        outcome = conversion(folder, pool, lambda *_: marks.append((time.perf_counter(), time.thread_time())))
        ended, total, share = time.perf_counter(), time.process_time() - spent, held()
        others = busy_seconds() - busy - total
    (first, _), (last, until) = marks[1], marks[-1]
    ran, queued = (now - before for now, before in zip(scheduled(), (ran, queued), strict=True))
    convert = sum(pool.times)
    figures = outcome.figures
    return {
        "size": figures["bytes"] / 1e6 if domain == "text" else sum(figures["rows"].values()),
        "seconds": ended - started,
        "cores": psutil.cpu_count() - others / (ended - started),  # that other programs left
        "around": first - started + ended - last,
        "driver": until - own,
        "convert": convert,
        "encode": total - convert - (time.thread_time() - own),
        # Most of it by the driver: while it waits for a core, nobody works.
        "gil": share * (ended - started) * ran / (ran + queued),
    }


def busy_seconds() -> float:
    """Time of all cores that any program had."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def scheduled() -> tuple[int, int]:
    """Nanoseconds for which this thread has run, and waited for a core."""
    ran, queued, _ = map(int, Path("/proc/thread-self/schedstat").read_text().split())
    return ran, queued


@contextmanager
def gil_watched() -> Iterator[Callable[[], float]]:
    """Gives the share of the time, until now, in which a thread of this process held the GIL."""
    samples = np.zeros(2, np.int64)
    over = np.zeros(1, bool)
    watch = threading.Thread(target=sample_gil, args=(samples, over))
    watch.start()
    try:
        yield lambda: samples[1] / samples[0]
    finally:
        over[0] = True
        watch.join()


@numba.njit("void(int64[:], bool_[:])", nogil=True)
def sample_gil(samples: Any, over: Any) -> None:
    """Count, every millisecond, the samples and those in which the GIL was held."""
    while not over[0]:
        SLEEP(1000)
        samples[0] += 1
        if HOLDER() != 0:
            samples[1] += 1


def conversion_of(domain: str, raw: str, changes: dict[str, Any]) -> Callable[..., Any]:
    """A conversion into a folder; what it compiles is compiled."""
    section, kind = section_of(domain, raw, changes), get_domain(domain)
    files = files_of(domain, section)
    kind.converter(section, NO_AUDIT)(next(iter(kind.units(files, section))))
    forecast = Estimate(0, 0, 0, 0, sequences=NEVER, unusual=NEVER)

    def run(folder: str, pool: Workers, watch: Callable[[int, int], None]) -> Any:
        conversion = Conversion(kind, section, files, Path(folder) / "a.zarr", Path(folder) / "a.csv")
        return conversion.run(forecast, executor=pool, workers=pool.count, watch=watch)

    return run


def limits(known: Mapping[str, float], workers: int, cores: float) -> dict[str, float]:
    """Seconds between the first unit and the last that each limit allows."""
    return {
        "driver": known["driver"] + known["encode"] / workers,
        "GIL": known["gil"],
        "workers": known["convert"] / workers,
        "cores": (known["driver"] + known["convert"] + known["encode"]) / cores,
    }


def predicted(known: Mapping[str, float], workers: int, cores: float) -> tuple[float, str]:
    """Amount per second, and what limits it."""
    seconds = limits(known, workers, cores)
    longest = max(seconds, key=lambda name: seconds[name])
    return known["size"] / (known["around"] + seconds[longest]), longest


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    for name, what in (("chess", "PGN"), ("go", "SGF"), ("text", "documents")):
        parser.add_argument(name, type=Path, help=what)
    parser.add_argument("--megabytes", type=int, default=400, help="of text")
    parser.add_argument("--tokenizer", type=Path, help="of text; learnt from it by default")
    given = parser.parse_args()
    if sys.version_info >= (3, 12):
        parser.error("who holds the GIL is known only in Python 3.11")
    runs: dict[str, dict[int, list[Any]]] = {name: {workers: [] for workers in MEASURED} for name in NAMES}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        inputs = Inputs(folder, given.chess, given.go, given.text)
        tokenizer = (given.tokenizer or inputs.tokenizer).resolve()
        changes = {**CHANGES, "text": {"tokenizer": {"path": str(tokenizer)}}}
        raw = {
            "chess": inputs["chess"],
            "go": inputs["go"],
            "text": lengthen(inputs["text"], folder / "raw", given.megabytes * 10**6),
        }
        for number in range(given.rounds):
            for domain in NAMES:
                tell(f"{domain}, round {number + 1} of {given.rounds}")
                of = {"domain": domain, "raw": raw[domain], "changes": changes[domain]}
                for workers, found in runs[domain].items():
                    found.append(once(converted, **of, workers=workers))
    known = {
        domain: {name: median(run[name] for run in found[1]) for name in found[1][0]} for domain, found in runs.items()
    }
    save(
        given.out,
        "cores",
        "conversion on more cores",
        [row for domain in NAMES for row in rows_of(domain, known[domain], runs[domain])],
        facts=("without audits", f"medians of {given.rounds} rounds", "cores that other programs left"),
        details={"constants": known, "runs": runs},
    )


def rows_of(domain: str, known: Mapping[str, float], found: Mapping[int, list[Any]]) -> list[Row]:
    """Constants, measured and predicted rates, and predictions for more cores."""
    of, unit = NAMES[domain], UNITS[domain]
    rows = [
        Row(label=label, value=round(known[name], 2), unit="seconds", of=of, table="parts")
        for name, label in PARTS.items()
    ]
    for workers, runs in found.items():
        cores = median(run["cores"] for run in runs)
        label = f"{workers} worker{'s' * (workers > 1)} here"
        measured = known["size"] / median(run["seconds"] for run in runs)
        rows.append(Row(label=f"{label}: measured", value=measured, unit=unit, of=of, table="cores"))
        rows += prediction(f"{label}: predicted", known, workers, cores, unit, of)
    for cores in MORE_CORES:
        rows += prediction(f"{cores} workers: predicted", known, cores, cores, unit, of)
    return rows


def prediction(label: str, known: Mapping[str, float], workers: int, cores: float, unit: str, of: str) -> list[Row]:
    """Cores, the rate, and its limit."""
    rate, limit = predicted(known, workers, cores)
    return [
        Row(label=label, value=value, unit=name, of=of, table="cores")
        for name, value in (("cores", cores), (unit, rate), ("limit", limit))
    ]


if __name__ == "__main__":
    main()
