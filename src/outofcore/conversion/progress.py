"""Progress of a conversion: a bar on a terminal, periodic lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from outofcore.display.bar import Bar

LINE_SECONDS = 15.0


class ConversionProgress:
    """Bytes done of ``total``, records per second, rejects, output size, time left, and free disk of ``folder``."""

    def __init__(self, name: str, total: int, folder: Path) -> None:
        self._name = name
        self._total = max(total, 1)
        self._folder = folder
        self._bar = Bar()
        self._task = self._bar.add_task(name, total=self._total)
        self._started = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, done: int, found: int, rejected: int, written: int) -> None:
        """Report raw bytes done, records found and rejected, bytes of store written."""
        now = time.monotonic()
        seconds = max(now - self._started, 1e-6)
        facts = (
            f"{found:,} records ({found / seconds:,.0f}/s), {rejected:,} rejected, {size(written)} written, "
            f"{size(shutil.disk_usage(self._folder).free)} free"
        )
        if not self._bar.disable:
            self._bar.update(self._task, completed=done, facts=facts)
        elif now - self._shown >= LINE_SECONDS:
            self._shown = now
            left = seconds * (self._total - done) / max(done, 1)
            sys.stderr.write(f"{self._name}: {done / self._total:.0%}, {facts}, {left:.0f} s left\n")
            sys.stderr.flush()


def size(count: float) -> str:
    """A readable number of bytes: ``1.9 GB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
