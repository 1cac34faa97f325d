"""A process that makes batches and measures itself when it is told to: one engine of a comparison.

The one that compares starts a process an engine, and lets one measure at a time, in turn, so that whatever else a
machine does hits them alike. A line comes in, a line of JSON goes out.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

_ANONYMOUS = re.compile(r"^Pss_Anon:\s+(\d+) kB", re.MULTILINE)
_WARM_SECONDS = 2.0


def anonymous_bytes(process: int | None = None) -> int:
    """Anonymous memory of a process, this one by default, and its children; what they share is counted once."""
    family, found = [process or os.getpid()], 0
    for pid in family:
        try:
            family += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            match = _ANONYMOUS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
        except OSError:  # gone
            continue
        found += 1024 * int(match[1]) if match else 0
    return found


class Watch:
    """The most memory while it runs, looked at four times a second. Looking takes time: never while speed counts."""

    def __init__(self) -> None:
        self.bytes = 0
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._over.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.25):
            self.bytes = max(self.bytes, anonymous_bytes())


def serve(prepare: Callable[[], Callable[[], Iterator[int]]]) -> None:
    """Measure whenever a line of JSON with ``seconds`` comes in: speed, or with ``watch`` memory.

    Parameters
    ----------
    prepare
        Imports and opens what is needed, and returns what begins an epoch: an iterator over the sizes of batches.
    """
    epoch = prepare()
    before = anonymous_bytes()
    watch = Watch()
    batches = _endless(epoch)
    with watch:
        _take(batches, _WARM_SECONDS)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["watch"]:
            with watch:
                _take(batches, asked["seconds"])
            answer = {"growth_bytes": watch.bytes - before}
        else:
            answer = {"samples_per_second": _take(batches, asked["seconds"])}
        print(json.dumps(answer), flush=True)
    os._exit(0)  # worker processes of some engines would be waited for in vain


def _take(batches: Iterator[int], seconds: float) -> float:
    """Samples a second, over so many seconds."""
    samples, started = 0, time.perf_counter()
    while (took := time.perf_counter() - started) < seconds:
        samples += next(batches)
    return samples / took


def _endless(epoch: Callable[[], Iterator[int]]) -> Iterator[int]:
    while True:
        yield from epoch()


class Engine:
    """A process that serves, seen from the one that compares; it and its children are paused while others measure."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.figures: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.failed = self._answer() is None
        self._signal(signal.SIGSTOP)

    def measure(self, seconds: float, *, watch: bool = False) -> None:
        """Let it run for a while, and look at its speed or its memory."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.write(json.dumps({"seconds": seconds, "watch": watch}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        self._signal(signal.SIGSTOP)
        if answer is None:
            self.failed = True
        else:
            self.figures.append(answer)

    def end(self) -> None:
        """Let it go."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _answer(self) -> dict[str, Any] | None:
        """The next line of JSON; None if the process has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        return None
