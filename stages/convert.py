"""Convert a domain's raw input into a sealed store: ``python stages/convert.py chess``."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path

from outofcore.console import one_line_errors
from outofcore.convert.estimate import estimate
from outofcore.convert.executors import open_executor
from outofcore.convert.run import Conversion, convert
from outofcore.domains.registry import get_domain
from outofcore.machine import load_machine
from outofcore.params import load_params
from outofcore.raw.files import find_files
from outofcore.space.dvc_cache import find_cache
from outofcore.space.forecast import store_needs
from outofcore.space.guard import KEPT_STORE, Guard
from outofcore.space.links import commit_of
from outofcore.streaming import is_streamed, place_of, write_catalogue
from outofcore.training.memory import MemoryWatch


def main(name: str) -> None:
    section, machine, domain = load_params().section(name), load_machine(), get_domain(name)
    store, metrics = Path("data/stores") / f"{name}.zarr", Path("metrics") / name
    figures = Guard(name, machine.disk_margin, machine.disk_reserve, KEPT_STORE)
    if is_streamed(domain, section):
        with figures.writing(place_of(domain, section)):
            listed = write_catalogue(domain, section, Path("data/rejects") / f"{name}.csv", threads=machine.workers)
            write(metrics / "convert.json", listed)
        return
    files = find_files(section.raw, section.match, domain.suffixes, section=name)
    started = time.monotonic()
    executor_of = partial(open_executor, machine.engine, machine.workers, address=machine.dask, files=files)
    with executor_of() as executor:
        forecast = estimate(domain, section, files, executor)
    conversion = Conversion(domain, section, files, store, Path("data/rejects") / f"{name}.csv")
    guard = Guard(name, machine.disk_margin, machine.disk_reserve)
    cache = find_cache()
    commit = commit_of(store, cache) if cache else None
    before = guard.require(store_needs(store, forecast.store_bytes, commit, conversion.work(machine.scratch)))
    with MemoryWatch(interval=0.25) as memory, guard.writing(store):
        outcome = convert(
            conversion,
            forecast,
            executor=executor_of(),
            workers=machine.workers,
            watch=guard.watch,
            scratch=machine.scratch,
        )
    seconds = time.monotonic() - started
    run = {
        "seconds": round(seconds, 2),
        "rows_per_second": round(sum(outcome.figures["rows"].values()) / seconds),
        "peak_memory_bytes": memory.peak_bytes,
        "workers": machine.workers,
        "resumed_units": outcome.resumed_units,
        "free_bytes_before": {str(demand.filesystem): demand.free for demand in before},
    }
    with figures.writing(metrics):
        write(metrics / "convert.json", outcome.figures)
        write(metrics / "convert_run.json", run)


def write(path: Path, figures: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    with one_line_errors():
        main(sys.argv[1])
