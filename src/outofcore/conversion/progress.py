"""Progress of a conversion."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from outofcore.display.bar import Bar


class ConversionProgress:
    """Bytes done of ``total``, records per second, rejects, output size, time left, and free disk of ``folder``."""

    def __init__(self, name: str, total: int, folder: Path) -> None:
        self._folder = folder
        self._bar = Bar()
        self._task = self._bar.add_task(name, total=max(total, 1))
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, done: int, found: int, rejected: int, written: int) -> None:
        """Report raw bytes done, records found and rejected, bytes of store written."""
        seconds = max(time.monotonic() - self._started, 1e-6)
        facts = (
            f"{found:,} records ({found / seconds:,.0f}/s), {rejected:,} rejected, "
            f"{f'{size(written)} written, ' if written else ''}"  # the shards of small input are written at the end
            f"{size(shutil.disk_usage(self._folder).free)} free"
        )
        self._bar.update(self._task, completed=done, facts=facts)


def size(count: float) -> str:
    """A readable number of bytes: ``1.9 GB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
