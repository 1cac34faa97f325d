"""A certificate of resume: does a loader give each record once, in the stated order, after it was stopped?

    python bench/certificate.py --peers peers/bin/python --out bench/results

Each library of ``stopped.py`` reads the same 1,000 shuffled records in batches of 80, as its documentation says, and is
stopped and resumed in new processes. A cell says ``right``, how many records were lost or came again, that the rest
came in another order, the words of a refusal, that damage was ``said``, or that nothing came in a minute and a half.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from harness.sides import tell
from stopped import LIBRARIES, RECORDS

BATCH, STOPS = 80, 12
LIMIT = 90  # seconds of a process
PROGRAM = Path(__file__).with_name("stopped.py")


class SideError(Exception):
    """A process ended with an error, or did not end."""


class Subject:
    """A library, its data set, and processes that read it."""

    def __init__(self, library: str, python: str, folder: Path) -> None:
        self.library, self.python, self.folder = library, python, folder
        self.data, self.home, self.runs = folder / "data", folder / "home", 0
        self.home.mkdir()
        self.shared = self.shared_memory()
        self._end(self._start(["write", library, str(self.data)]), LIMIT)

    def read(
        self,
        *,
        state: Path | None = None,
        epochs: Sequence[int] = (0,),
        most: int = 0,
        batch: int = BATCH,
        workers: int = 0,
        world: int = 1,
        keep: bool = False,
        data: Path | None = None,
        kill_after: int = 0,
    ) -> tuple[list[list[Any]], Path]:
        """Batches in the order in which they came, rank after rank, and the folder with the states after each."""
        self.runs += 1
        out = self.folder / f"run-{self.runs}"
        out.mkdir()
        job = {"state": state and str(state), "epochs": list(epochs), "most": most, "batch": batch, "workers": workers}
        (out / "job.json").write_text(json.dumps({**job, "keep": keep, "out": str(out)}))
        words = ["read", self.library, str(data or self.data), str(out / "job.json")]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = [
            {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            for rank in range(world)
        ]
        running = [self._start(words, each if world > 1 else {}) for each in ranks]
        if kill_after:
            started = time.monotonic()
            while self._delivered(out, 0) < kill_after and time.monotonic() - started < LIMIT:
                time.sleep(0.02)
            for each in running:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()
        else:
            for each in running:
                self._end(each, LIMIT)
        lines = [line for path in sorted(out.glob("batches-*.jsonl")) for line in path.read_text().splitlines()]
        return [json.loads(line) for line in lines], out

    def _delivered(self, out: Path, rank: int) -> int:
        path = out / f"batches-{rank}.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def left(self) -> int:
        """Bytes in HOME and TMPDIR, and in shared memory that was not there before."""
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files) + sum(
            size for name, size in self.shared_memory().items() if name not in self.shared
        )

    def shared_memory(self) -> dict[str, int]:
        return {path.name: path.stat().st_size for path in Path("/dev/shm").iterdir()}

    def _start(self, words: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        places = {"HOME": str(self.home), "TMPDIR": str(self.home), "PYTHONWARNINGS": "ignore"}
        return subprocess.Popen(
            [self.python, str(PROGRAM), *words],
            env={**os.environ, **places, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _end(self, process: subprocess.Popen[bytes], limit: float) -> None:
        try:
            said = process.communicate(timeout=limit)[0].decode(errors="replace").strip().splitlines()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            message = f"hung ({limit:.0f} s)"
            raise SideError(message) from None
        if process.returncode:
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
        self.batches, out = subject.read(epochs=(0, 1), keep=True)
        self.first, self.second = records(self.batches, 0), records(self.batches, 1)
        self.count = sum(place == 0 for place, _, _ in self.batches)
        self.states = [out / f"state-{number + 1}" for number in range(len(self.batches))]

    def rest(self, after: int) -> list[int]:
        return records(self.batches[after : self.count])

    def each_once(self) -> str:
        """Two epochs: each record once in each, in two orders."""
        found = [verdict(order, list(range(RECORDS)), ordered=False) for order in (self.first, self.second)]
        return next((each for each in found if each != "right"), "right" if self.first != self.second else "one order")

    def each_stop(self) -> str:
        """Resumed after each of 12 batches."""
        stops = range(1, STOPS + 1)
        found = [verdict(records(self.subject.read(state=self.states[n - 1])[0]), self.rest(n)) for n in stops]
        wrong = [each for each in found if each != "right"]
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
        found = verdict(records(batches), list(range(RECORDS)), ordered=False)
        return found if len(steps) == 1 else f"{found}; {min(steps)} to {max(steps)} batches"

    def killed(self) -> str:
        """SIGKILL with two workers, and started again at once."""
        self.subject.read(workers=2, kill_after=3)
        batches, _ = self.subject.read(workers=2)
        return verdict(records(batches), list(range(RECORDS)), ordered=False)

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

    def _harmed(self, harm: Callable[[Path], object]) -> str:
        data = self.subject.folder / "harmed"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(self.subject.data, data)
        files = [path for path in data.rglob("*") if path.is_file()]
        harm(max(sorted(files), key=lambda path: path.stat().st_size))
        try:
            batches, _ = self.subject.read(data=data)
        except SideError:
            return "said"
        found = verdict(records(batches), list(range(RECORDS)), ordered=False)
        return found if all(whole for _, _, whole in batches) else f"delivered it; {found}"


COLUMNS = (
    "each_once", "each_stop", "three_stops", "at_the_end", "second_epoch", "workers", "ranks", "batch_size",
    "uneven_ranks", "killed", "deleted_file", "flipped_byte", "left_behind",
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


def table(found: dict[str, dict[str, str]], versions: dict[str, str]) -> str:
    """Markdown: a row per trial, a column per library."""
    lines = ["| trial | " + " | ".join(f"{name} {versions.get(name, '')}".strip() for name in found) + " |"]
    lines += ["| --- " * (len(found) + 1) + "|"]
    for name in COLUMNS:
        trial = str(getattr(Trials, name).__doc__).rstrip(".")
        lines.append(f"| {trial} | " + " | ".join(shorten(cells[name], 60) for cells in found.values()) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="a Python that has bench/peers.txt installed")
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    given = parser.parse_args()
    found, versions = {}, {}
    for library in given.only:
        if library == "outofcore" or given.peers:
            with tempfile.TemporaryDirectory() as folder:
                python = sys.executable if library == "outofcore" else given.peers
                command = [python, "-c", f"from importlib.metadata import version; print(version({library!r}))"]
                versions[library] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
                found[library] = certify(library, python, Path(folder))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "certificate.md").write_text(table(found, versions), encoding="utf-8")
    tell(f"{given.out}/certificate.md")


if __name__ == "__main__":
    main()
