"""Conversions that are killed at random moments, what they leave, and what the next run uses again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.pipeline.workplace import Workplace
from tests.processes import Program

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
        running = conversion(place)
        files = self.dice.randrange(self.files * 4 // 5)  # the last ones are written within a moment: see late

        def reached() -> bool:
            # A signal while the interpreter starts ends it in the interpreter's own words; nothing is written by then.
            begun = number is signal.SIGKILL or place.work.exists()
            return self._sealing() if late else begun and self._files() >= files

        if waited_for(reached, running):
            time.sleep(self.dice.uniform(0, 0.05 if late else 0.1))
        if running.process.exitcode is None:
            os.killpg(running.process.pid or 0, number)
        ended = running.ended(1200)
        told = ended.stdout + ended.stderr
        done = (place.folder / "metrics" / place.domain / "convert_run.json").exists()
        if not done:  # else it was killed while the interpreter ended
            clean = -signal.SIGKILL if number is signal.SIGKILL else 130
            assert ended.returncode == clean, f"{number.name}: {ended.returncode}\n{told}"
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
        ended = conversion(self.place).ended(1200)
        assert ended.returncode == 0, ended.stderr

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


def conversion(place: Workplace, seconds: float = SECONDS) -> Program:
    """A conversion that saves its state every so many seconds."""
    code = "import runpy; runpy.run_module('tests.pipeline.often', run_name='__main__', alter_sys=True)"
    return Program(code, str(seconds), "convert", place.domain, folder=place.folder, **place.environment())


def waited_for(condition: Callable[[], bool], running: Program) -> bool:
    """Wait until something is so, or the process has ended; whether it is so."""
    while not condition():
        if running.process.exitcode is not None:
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
