"""A scheduler and workers as processes of their own, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conversion.hosts import HERE, Host

CHECKOUT = Path(__file__).resolve().parents[2]


class Cluster:
    """Processes of a cluster; ``address`` is its scheduler's."""

    def __init__(self, folder: Path, host: Host = HERE) -> None:
        self._file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard", host=host)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def wait(self) -> None:
        """Wait until the scheduler says where it is."""
        while not self._file.exists() or not self._file.read_text().endswith("}"):
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text())["address"]

    def add_worker(self, *options: str, folder: Path = CHECKOUT, host: Host = HERE) -> None:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", *options)
        self.workers.append(self._start("worker", *options, folder=folder, host=host))

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, kind: str, *options: str, folder: Path = CHECKOUT, host: Host = HERE) -> subprocess.Popen[bytes]:
        command = [*host.prefix(), sys.executable, "-m", f"distributed.cli.dask_{kind}", "--host", host.address]
        command += ["--scheduler-file", str(self._file), *options]
        settings = {"DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1s", "NUMBA_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, cwd=folder, env=environment(**settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


def environment(**settings: str) -> dict[str, str]:
    """The environment of a process that uses this checkout."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)]), **settings}


@contextmanager
def open_processes(folder: Path, workers: int) -> Iterator[Cluster]:
    """A scheduler and some workers."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder)
    try:
        cluster.wait()
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()
