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

CHECKOUT = Path(__file__).resolve().parents[2]


class Cluster:
    """Processes of a cluster; ``address`` is its scheduler's."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.workers: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def wait(self) -> None:
        """Wait until the scheduler says where it is."""
        while not self._file.exists() or not self._file.read_text().endswith("}"):
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text())["address"]

    def add_worker(self, folder: Path = CHECKOUT) -> None:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        self.workers.append(self._start("worker", *options, folder=folder))

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, kind: str, *options: str, folder: Path = CHECKOUT) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(self._file), *options]
        path = os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)])
        settings = {"PYTHONPATH": path, "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1s", "NUMBA_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, cwd=folder, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


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
