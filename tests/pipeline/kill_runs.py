"""Conversions that are killed at random moments, what they leave, and what the next run uses again."""

from __future__ import annotations

import os
import random
import runpy
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tests.pipeline.workplace import Workplace

DOMAINS = ("chess", "go", "text", "neural")
SECONDS = 0.2
"""Time between checkpoints: the conversions are short."""


@dataclass(frozen=True)
class Kill:
    """What a conversion that was killed left, and what the run after it used."""

    left: str  # at the store's place: "none", "old" or "new"
    resumed: int  # units that the next run did not convert again
    reused: int  # shards that were whole after the kill and are files of the store in the end


@dataclass
class Killer:
    """Kills the conversions of one domain.

    Attributes
    ----------
    place
        Where they run.
    dice
        Decides the moments.
    """

    place: Workplace
    dice: random.Random
    expected: dict[str, str] = field(default_factory=dict)
    old: Path = field(init=False)
    digests: dict[str, str] = field(default_factory=dict)
    files: int = 0

    def __post_init__(self) -> None:
        """Convert without a kill: a part of the input for the store before, and all for what to expect."""
        place = self.place
        place.set("match", "0/**/*")
        place.run("convert")
        self.digests["old"] = place.standing()
        self.old = place.store.rename(place.folder / "old.zarr")
        place.set("match", "**/*")
        place.clear()
        self._to_the_end()
        self.expected = place.left()
        self.files = len(self.expected)
        self.digests["new"] = place.standing()

    def kill(self, number: signal.Signals, *, over: bool, late: bool) -> Kill:
        """Kill a conversion, look at what is there, run it again, and compare.

        Parameters
        ----------
        number
            The signal, sent to the process group, as Ctrl-C is.
        over
            Whether a sealed store is at its place before.
        late
            Whether the moment lies in the last part, in which metadata and seal are written.
        """
        place = self.place
        place.clear()
        if over:
            shutil.copytree(self.old, place.store)
        running = Forked(place)
        files = self.dice.randrange(self.files * 4 // 5)  # the last ones are written within a moment: see late

        def reached() -> bool:
            # A signal while the interpreter starts ends it in the interpreter's own words; nothing is written by then.
            begun = number is signal.SIGKILL or place.work.exists()
            return self._sealing() if late else begun and self._files() >= files

        if waited_for(reached, running):
            time.sleep(self.dice.uniform(0, 0.05 if late else 0.1))
        if running.poll() is None:
            os.killpg(running.pid, number)
        told = running.communicate(timeout=1200)[0]
        done = (place.folder / "metrics" / place.domain / "convert_run.json").exists()
        if not done:  # else it was killed while the interpreter ended
            clean = -signal.SIGKILL if number is signal.SIGKILL else 130
            assert running.returncode == clean, f"{number.name}: {running.returncode}\n{told}"
            progress = (f"{place.domain}: converting ", f"convert {place.domain}: ", "left out of raw: ")
            lines = [line for line in told.splitlines() if not line.startswith(progress)]
            assert len(lines) == (number is not signal.SIGKILL), told
        left = self._left(over=over)
        whole = shards(place.work)
        (place.folder / "metrics" / place.domain / "convert_run.json").unlink(missing_ok=True)
        self._to_the_end()
        assert place.left() == self.expected
        assert not place.work.exists()
        assert sorted(path.name for path in place.store.parent.iterdir()) == [place.store.name]
        return Kill(left, place.run_figures("convert")["resumed_units"], len(whole & shards(place.store)))

    def _to_the_end(self) -> None:
        running = Forked(self.place)
        told = running.communicate(timeout=1200)[0]
        assert running.returncode == 0, told

    def _files(self) -> int:
        return sum(len(names) for _, _, names in os.walk(self.place.work / "store"))

    def _sealing(self) -> bool:
        return (self.place.work / "store" / "zarr.json").exists()

    def _left(self, *, over: bool) -> str:
        place = self.place
        found = place.standing()
        if not found:
            return "none"
        name = {digest: name for name, digest in self.digests.items()}[found]
        assert name == "new" or over
        return name


class Forked:
    """A conversion in a copy of this process, with what a :class:`subprocess.Popen` of it would have."""

    def __init__(self, place: Workplace, seconds: float = SECONDS) -> None:
        self.returncode: int | None = None
        self._output = place.folder / "told.txt"
        self.pid = os.fork()
        if not self.pid:
            self._run(place, seconds)

    def _run(self, place: Workplace, seconds: float) -> NoReturn:
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
            os.chdir(place.folder)
            os.environ.update(place.environment())
            with self._output.open("w") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
            sys.argv = ["often", str(seconds), "convert", place.domain]
            runpy.run_module("tests.pipeline.often", run_name="__main__")
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException:  # noqa: BLE001 - it ends here, whatever it was
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, None]:
        """Wait for its end; what it printed."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < end, self._output.read_text()
            time.sleep(0.005)
        return self._output.read_text(), None


def waited_for(condition: Callable[[], bool], running: Forked) -> bool:
    """Wait until something is so, or the process has ended; whether it is so."""
    while not condition():
        if running.poll() is not None:
            return False
        time.sleep(0.002)
    return True


def shards(folder: Path) -> set[tuple[int, int]]:
    """The shards under a folder that are whole, by the number of their file and its time of change."""
    found = set()
    for path in folder.rglob("c.*"):
        if not path.name.endswith(".partial"):
            facts = path.stat()
            found.add((facts.st_ino, facts.st_mtime_ns))
    return found
