"""A certificate of resume: does a loader give each record once, in the stated order, after it was stopped?

    PYTHONPATH=bench python -m rivals.certificate --peers peers/bin/python --out bench/results

Each library of ``stopped.py`` reads the same 1,000 shuffled records in batches of 80, as its documentation says, and is
stopped and resumed in new processes; mixtures and 16 workers read two data sets of 12,000. A cell says ``right``, how
many records were lost or came again, that the rest came in another order, the words of a refusal, that damage was
``said``, that the library does not offer it, or that nothing came in three minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import Any

from harness.sides import tell
from rivals.stopped import LIBRARIES, MIXED

RECORDS, FILES, BATCH, STOPS = 1_000, 8, 80, 12
SOURCE, SOURCE_FILES = 12_000, 16  # of a mixture, and of 16 workers
SHARES = (0.001, 0.5, 0.999)  # of the first of two sources
LIMIT = 180  # seconds of a process
JOB = {
    "state": None, "epochs": [0], "most": 0, "batch": BATCH, "workers": 0, "keep": False, "shares": [], "wait": False,
}  # fmt: skip
PROGRAM = Path(__file__).with_name("stopped.py")


class SideError(Exception):
    """A process ended with an error, or did not end."""


class Subject:
    """A library, its data sets, and processes that read them."""

    def __init__(self, library: str, python: str, folder: Path) -> None:
        self.library, self.python, self.folder = library, python, folder
        self.data, self.home, self.runs = folder / "data", folder / "home", 0
        self.sources = (folder / "source-0", folder / "source-1")
        self.home.mkdir()
        self.shared = self.shared_memory()
        self.write(self.data, 0, RECORDS, FILES)

    def read(self, *, world: int = 1, killed_after: int = 0, **job: Any) -> tuple[list[list[Any]], Path]:
        """Batches in the order in which they came, rank after rank, and the folder with the states after each."""
        self.runs += 1
        out = self.folder / f"run-{self.runs}"
        out.mkdir()
        job = {**JOB, "data": [self.data], **job, "out": out}
        if killed_after:
            job.update(most=killed_after, wait=True)
        (out / "job.json").write_text(json.dumps(job, default=str))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = [
            {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            for rank in range(world)
        ]
        words = ["read", self.library, str(out / "job.json")]
        running = [self._start(words, environment if world > 1 else {}) for environment in ranks]
        try:
            if killed_after:
                self._wait_for(killed_after * world, out, running)
            for process in running:
                if killed_after and process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            for process in running:
                self._end(process, LIMIT, killed=bool(killed_after))
        finally:
            for process in running:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        lines = [line for path in sorted(out.glob("batches-*.jsonl")) for line in path.read_text().splitlines()]
        return [json.loads(line) for line in lines], out

    def _wait_for(self, count: int, out: Path, running: list[subprocess.Popen[bytes]]) -> None:
        """Wait until so many batches came, or a process ended."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until and all(process.poll() is None for process in running):
            if sum(path.read_bytes().count(b"\n") for path in out.glob("batches-*.jsonl")) >= count:
                break
            time.sleep(0.02)

    def write(self, folder: Path, first: int, count: int, files: int) -> None:
        self._end(self._start(["write", self.library, str(folder), str(first), str(count), str(files)]), LIMIT)

    def left(self) -> int:
        """Bytes in HOME and TMPDIR, and in shared memory that was not there before."""
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files) + sum(
            size for name, size in self.shared_memory().items() if name not in self.shared
        )

    def shared_memory(self) -> dict[str, int]:
        """Sizes in shared memory of what no living process maps."""
        mapped = ""
        for process in Path("/proc").glob("[0-9]*/maps"):
            with suppress(OSError):  # it ended
                mapped += process.read_text()
        files = [path for path in Path("/dev/shm").iterdir() if str(path) not in mapped]
        return {path.name: path.stat().st_size for path in files if path.exists()}

    def _start(self, words: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        places = {"HOME": str(self.home), "TMPDIR": str(self.home), "PYTHONWARNINGS": "ignore"}
        return subprocess.Popen(
            [self.python, str(PROGRAM), *words],
            env={**os.environ, **places, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _end(self, process: subprocess.Popen[bytes], limit: float, *, killed: bool = False) -> None:
        try:
            said = process.communicate(timeout=limit)[0].decode(errors="replace").strip().splitlines()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise SideError(f"hung ({limit:.0f} s)") from None
        if process.returncode and not (killed and process.returncode == -signal.SIGKILL):
            raise SideError(said[-1][:120] if said else f"ended with {process.returncode}")


def records(batches: list[list[Any]], epoch: int | None = None) -> list[int]:
    return [number for place, numbers, _ in batches if epoch in (None, place) for number in numbers]


def verdict(got: list[int], expected: list[int], *, ordered: bool = True) -> str:
    """How what came differs from what should have come."""
    more, less = Counter(got) - Counter(expected), Counter(expected) - Counter(got)
    if more or less:
        words = [f"{less.total()} lost"] * bool(less) + [f"{more.total()} again"] * bool(more)
        return ", ".join(words)
    return "right" if got == expected or not ordered else "another order"


class Trials:
    """What one library does, each trial by the name of its column."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        for number, source in enumerate(subject.sources):
            subject.write(source, number * SOURCE, SOURCE, SOURCE_FILES)
        self.batches, out = subject.read(epochs=(0, 1), keep=True)
        self.first, self.second = records(self.batches, 0), records(self.batches, 1)
        self.count = sum(place == 0 for place, _, _ in self.batches)
        self.states = [out / f"state-{number + 1}" for number in range(len(self.batches))]

    def rest(self, after: int) -> list[int]:
        return records(self.batches[after : self.count])

    def each_once(self) -> str:
        """Two epochs: each record once in each, in two orders."""
        verdicts = [verdict(order, list(range(RECORDS)), ordered=False) for order in (self.first, self.second)]
        return next(
            (answer for answer in verdicts if answer != "right"), "right" if self.first != self.second else "one order"
        )

    def each_stop(self) -> str:
        """Resumed after each of 12 batches."""
        stops = range(1, STOPS + 1)
        verdicts = [verdict(records(self.subject.read(state=self.states[n - 1])[0]), self.rest(n)) for n in stops]
        wrong = [answer for answer in verdicts if answer != "right"]
        return f"{len(wrong)} of {STOPS}: {wrong[0]}" if wrong else "right"

    def three_stops(self) -> str:
        """Stopped three times in one epoch."""
        got: list[int] = []
        state = None
        for most in (3, 3, 3, 0):
            batches, out = self.subject.read(state=state, most=most, keep=True)
            got += records(batches)
            state = out / f"state-{len(batches)}"
        return verdict(got, self.first)

    def at_the_end(self) -> str:
        """Stopped after the last batch of an epoch: the next one follows, whole."""
        batches, _ = self.subject.read(state=self.states[self.count - 1], epochs=(0, 1))
        return verdict(records(batches)[:RECORDS], self.second)

    def second_epoch(self) -> str:
        """Stopped inside the second epoch."""
        batches, _ = self.subject.read(state=self.states[self.count + 4], epochs=(1,))
        return verdict(records(batches), records(self.batches[self.count + 5 :]))

    def workers(self) -> str:
        """Resumed with two workers (threads of ours) instead of none."""
        batches, _ = self.subject.read(state=self.states[4], workers=2)
        return verdict(records(batches), self.rest(5))

    def ranks(self) -> str:
        """Resumed on two ranks instead of one; batches are halves of those before."""
        batches, _ = self.subject.read(state=self.states[4], world=2)
        return verdict(records(batches), self.rest(5), ordered=False)

    def batch_size(self) -> str:
        """Resumed with batches of 50 instead of 80."""
        batches, _ = self.subject.read(state=self.states[4], batch=50)
        return verdict(records(batches), self.rest(5))

    def uneven_ranks(self) -> str:
        """Three ranks: each record once, in as many batches on each rank."""
        batches, out = self.subject.read(world=3)
        steps = {path.read_text().count("\n") for path in out.glob("batches-*.jsonl")}
        answer = verdict(records(batches), list(range(RECORDS)), ordered=False)
        return answer if len(steps) == 1 else f"{answer}; {min(steps)} to {max(steps)} batches"

    def killed_workers(self) -> str:
        """SIGKILL with two workers, and started again at once."""
        return self._killed(workers=2)

    def killed_ranks(self) -> str:
        """SIGKILL of eight ranks, and started again at once."""
        return self._killed(world=8)

    @cached_property
    def mixed(self) -> list[tuple[list[list[Any]], Path]]:
        """A mixture of each share: its batches, and its states."""
        form = {"data": self.subject.sources, "most": MIXED // BATCH, "keep": True}
        return [self.subject.read(shares=(share, 1 - share), **form) for share in SHARES]

    def mixture(self) -> str:
        """Of 10,000 records of a mixture, 10, 5,000 and 9,990 should come from the first source."""
        return "; ".join(f"{sum(number < SOURCE for number in records(batches)):,}" for batches, _ in self.mixed)

    def mixture_resumed(self) -> str:
        """The three mixtures, stopped after 5 batches: the next 20 are the same."""
        form = {"data": self.subject.sources, "most": 20}
        wrong = 0
        for share, (batches, out) in zip(SHARES, self.mixed, strict=True):
            mixed, _ = self.subject.read(shares=(share, 1 - share), state=out / "state-5", **form)
            wrong += records(mixed) != records(batches[5:25])
        return f"{wrong} of {len(SHARES)}: others" if wrong else "right"

    def memory(self) -> str:
        """How much more memory 16 workers take than none (threads of outofcore, annbatch and insitubatch)."""
        sizes = []
        for workers in (0, 16):
            _, out = self.subject.read(data=[self.subject.sources[0]], workers=workers, most=48)
            sizes.append(int((out / "held-0").read_text()))
        more = (sizes[1] - sizes[0]) / 1e6
        return f"{more:,.0f} MB" if more >= 5 else "less than 5 MB"

    def deleted_file(self) -> str:
        """A file of the data is missing: said, and not skipped in silence."""
        return self._harmed(lambda path: path.unlink())

    def flipped_byte(self) -> str:
        """A byte of a record differs: said, and not delivered."""

        def flip(path: Path) -> None:
            content = bytearray(path.read_bytes())
            content[len(content) // 2 + 3] ^= 64
            path.write_bytes(content)

        return self._harmed(flip)

    def left_behind(self) -> str:
        """What all these runs left in HOME, TMPDIR and shared memory."""
        return f"{self.subject.left():,} bytes"

    def _killed(self, **how: int) -> str:
        self.subject.read(killed_after=3, **how)
        batches, _ = self.subject.read(**how)
        return verdict(records(batches), list(range(RECORDS)), ordered=False)

    def _harmed(self, harm: Callable[[Path], object]) -> str:
        data = self.subject.folder / "harmed"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(self.subject.data, data)
        files = [path for path in data.rglob("*") if path.is_file() and path.suffix != ".json"]
        harm(max(sorted(files), key=lambda path: path.stat().st_size))
        try:
            batches, _ = self.subject.read(data=[data])
        except SideError:
            return "said"
        answer = verdict(records(batches), list(range(RECORDS)), ordered=False)
        return answer if all(whole for _, _, whole in batches) else f"delivered it; {answer}"


COLUMNS = (
    "each_once", "each_stop", "three_stops", "at_the_end", "second_epoch", "workers", "ranks", "batch_size",
    "uneven_ranks", "mixture", "mixture_resumed", "killed_workers", "killed_ranks", "deleted_file", "flipped_byte",
    "memory", "left_behind",
)  # fmt: skip


def certify(library: str, python: str, folder: Path) -> dict[str, str]:
    """Every cell of a library."""
    trials = Trials(Subject(library, python, folder))
    cells = {}
    for name in COLUMNS:
        try:
            cells[name] = getattr(trials, name)()
        except SideError as error:
            cells[name] = str(error)
        cells[name] = cells[name].replace(f"{folder}/", "")
        tell(f"{library}, {name}: {cells[name]}")
    return cells


def table(cells_of: dict[str, dict[str, str]], versions: dict[str, str]) -> str:
    """Markdown: a row per trial, a column per library."""
    lines = ["| trial | " + " | ".join(f"{name} {versions.get(name, '')}".strip() for name in cells_of) + " |"]
    lines += ["| --- " * (len(cells_of) + 1) + "|"]
    for name in COLUMNS:
        trial = str(getattr(Trials, name).__doc__).rstrip(".")
        lines.append(f"| {trial} | " + " | ".join(shorten(cells[name], 60) for cells in cells_of.values()) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="a Python that has bench/rivals/peers.txt installed")
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    given = parser.parse_args()
    cells_of, versions = {}, {}
    for library in given.only:
        if library == "outofcore" or given.peers:
            with tempfile.TemporaryDirectory() as folder:
                python = sys.executable if library == "outofcore" else given.peers
                command = [python, "-c", f"from importlib.metadata import version; print(version({library!r}))"]
                versions[library] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
                cells_of[library] = certify(library, python, Path(folder))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "certificate.md").write_text(table(cells_of, versions), encoding="utf-8")
    tell(f"{given.out}/certificate.md")


if __name__ == "__main__":
    main()
