"""What does a cluster cost: a conversion on Dask workers compared with threads, and the memory of the driver?

    python bench/cluster.py players.pgn.zst --megabytes 40 --rounds 3

Driver, scheduler and workers are processes of this machine, connected by loopback; if there are more workers than
cores, they share them. Nothing is audited. The driver's memory is measured for half of the input and for all of it: it
must not grow.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from harness.results import Row, arguments, save
from harness.sides import once
from harness.stores import NEVER, files_of, section_of
from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.registry import get_domain
from outofcore.raw.files import decompressed

THREADS = 2
WORKERS = (1, 2, 3)
ONE_THREAD = {"NUMBA_NUM_THREADS": "1"}


def drive(raw: str, address: str) -> dict[str, Any]:
    """Convert, in this process and on the cluster at the address, or in threads."""
    section, domain = section_of("chess", raw), get_domain("chess")
    files = files_of("chess", section)
    with tempfile.TemporaryDirectory(dir=Path(raw).parent) as folder:
        conversion = Conversion(domain, section, files, Path(folder) / "a.zarr", Path(folder) / "a.csv")
        executor = open_executor("dask" if address else "threads", THREADS, address=address, files=files)
        forecast = Estimate(0, 0, 0, 0, sequences=NEVER, unusual=NEVER)
        started = time.perf_counter()
        outcome = conversion.run(forecast, executor=executor, workers=THREADS, watch=lambda *_: None)
        seconds = time.perf_counter() - started
    return {
        "digest": outcome.seal.digest,
        "rows": sum(outcome.figures["rows"].values()),
        "seconds": seconds,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler and workers as processes; gives the scheduler's address."""
    address_file = folder / f"scheduler{workers}.json"
    common = ["--scheduler-file", str(address_file), "--host", "127.0.0.1", "--no-dashboard"]
    commands = [["scheduler", "--port", "0"]] + [["worker", "--nthreads", "1", "--no-nanny"]] * workers
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", *common, *options],
            env=os.environ | ONE_THREAD,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for kind, *options in commands
    ]
    try:
        while not address_file.exists() or not address_file.read_text().endswith("}"):
            time.sleep(0.05)
        yield json.loads(address_file.read_text())["address"]
    finally:
        for process in started:
            process.kill()
            process.wait()


def cut_input(source: Path, folder: Path, size: int) -> dict[str, Path]:
    """Folders with the first half of so many bytes of games, and with all of them."""
    with source.open("rb") as stream:
        text = decompressed(stream, source.name).read(size)
    cut = {"half": text.rindex(b"\n[Event ", 0, len(text) // 2) + 1, "all": text.rindex(b"\n[Event ") + 1}
    for name, end in cut.items():
        (folder / name).mkdir()
        (folder / name / "games.pgn").write_bytes(text[:end])
    return {name: folder / name for name in cut}


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("raw", type=Path, help="a PGN file, plain or .zst")
    parser.add_argument("--megabytes", type=float, default=40, help="how much of its text")
    given = parser.parse_args()
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        inputs = cut_input(given.raw, Path(folder), int(given.megabytes * 1e6))
        for number in range(-1, given.rounds):
            for workers in (0, *WORKERS):
                name = f"a cluster of {workers}" if workers else f"{THREADS} threads"
                place = Path(folder) / f"{number}.{workers}"
                place.mkdir()
                with cluster(place, workers) if workers else nullcontext("") as address:
                    if workers:  # they compile, and import their libraries
                        once(drive, environment=ONE_THREAD, raw=inputs["half"], address=address)
                    for size, raw in inputs.items():
                        result = once(drive, environment=ONE_THREAD, raw=raw, address=address)
                        if number >= 0:
                            runs.setdefault(name, {}).setdefault(size, []).append(result)
    report(runs, given.out)


def report(runs: dict[str, dict[str, list[dict[str, Any]]]], out: Path) -> None:
    digests = {size: {run["digest"] for sizes in runs.values() for run in sizes[size]} for size in ("half", "all")}
    assert all(len(found) == 1 for found in digests.values()), "stores differ"
    speed = {
        name: float(np.median([run["rows"] / run["seconds"] for run in sizes["all"]])) for name, sizes in runs.items()
    }
    held = {
        name: {size: float(np.median([run["peak_bytes"] for run in found])) / 1e6 for size, found in sizes.items()}
        for name, sizes in runs.items()
    }
    base = f"{THREADS} threads"
    rows = []
    for name, value in speed.items():
        of = {"ratio": round(value / speed[base], 3), "against": base} if name != base else {}
        rows.append(Row(label=name, value=round(value), unit="positions/s", table="cluster", **of))
        for size, megabytes in held[name].items():
            rows.append(Row(label=name, value=round(megabytes), unit="MB in the driver", of=size, table="cluster"))
    save(
        out,
        "cluster",
        "conversion on a cluster of this machine",
        rows,
        facts=("equal digests", f"{runs[base]['all'][0]['rows']:,} positions, and half as many"),
        details=runs,
        versions={"distributed": version("distributed")},
    )


if __name__ == "__main__":
    main()
