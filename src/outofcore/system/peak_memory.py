"""Peak memory of a block of work."""

from __future__ import annotations

import logging
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from outofcore.settings.hardware import usable_memory
from outofcore.settings.sizes import format_bytes

_PROPORTIONAL = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
_log = logging.getLogger(__name__)
_SPARE = 0.1
_FAMILY_SECONDS = 1.0  # finding children reads the whole process table


class MemoryWatch:
    """Samples the memory of this process and its children in a thread during its ``with`` block.

    ``interval`` is in seconds. ``peak_bytes`` counts shared pages once where the system reports it (Linux: proportional
    set size), and pages of mapped files while they are in memory; ``peak_rss_bytes`` is the plain sum of resident set
    sizes. A warning is logged once when less than a tenth of what these processes could hold is left.
    """

    def __init__(self, interval: float = 0.05) -> None:
        self.peak_bytes = 0
        self.peak_rss_bytes = 0
        self._interval = interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory watch", daemon=True)
        self._warned = False
        self._family: list[psutil.Process] = []
        self._family_since = float("-inf")
        self._shared = 0  # bytes that resident sets count more than once

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._sample()

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        now = time.monotonic()
        looks = now - self._family_since > _FAMILY_SECONDS
        if looks:
            this = psutil.Process()
            self._family, self._family_since = [this, *this.children(recursive=True)], now
        resident: dict[int, int] = {}
        for process in self._family:
            with suppress(psutil.NoSuchProcess):
                resident[process.pid] = process.memory_info().rss
        plain = sum(resident.values())
        self.peak_rss_bytes = max(self.peak_rss_bytes, plain)
        # To tell shared pages apart, Linux walks all page tables, some milliseconds in which page faults wait. So this
        # is done for a possible peak, and each time that processes are looked for, as sharing changes.
        if looks or plain - self._shared > self.peak_bytes:
            alone = len(resident) == 1
            used = plain if alone else sum(_proportional(pid, rss) for pid, rss in resident.items())
            self._shared = plain - used
            self.peak_bytes = max(self.peak_bytes, used)
            if looks and not self._warned:
                self._warn(used)

    def _warn(self, used: int) -> None:
        left = usable_memory()
        if left.value < _SPARE * (used + left.value):
            self._warned = True
            _log.warning(
                "%s are held, and only %s are %s; lower memory, workers or micro_batch in machine.yaml",
                *(format_bytes(used), format_bytes(left.value), left.how),
            )


def _proportional(pid: int, rss: int) -> int:
    """Proportional set size of a process, or its resident set size if unavailable."""
    try:
        match = _PROPORTIONAL.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    except OSError:
        return rss
    return int(match[1]) * 1024 if match else rss
