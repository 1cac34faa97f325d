"""Sides of a comparison: each in a process of its own, measured in turn while the others are stopped.

Whatever else the machine does hits all sides alike, so ratios hold where rates do not. A side is a function of a
question's file: it opens what it reads and returns what begins an epoch, an iterator over numbers of samples. A whole
piece of work, such as a conversion, is an epoch of one number. This file imports nothing of the project: other
libraries run in an environment of their own.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Self

BENCH = Path(__file__).resolve().parents[1]
Epoch = Callable[[], Iterator[int]]
_SIZE = re.compile(r"^(Pss_\w+):\s+(\d+) kB", re.MULTILINE)
_TICK = os.sysconf("SC_CLK_TCK")
_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass
class Side:
    """One side: a function and its arguments.

    Attributes
    ----------
    name
        In the table.
    function
        See the module; it is imported by name in the process of the side.
    arguments
        What it is called with, as JSON can hold it.
    python
        The interpreter.
    ahead
        Batches that may have been made before a turn began: they pass before the clock starts.
    seconds
        Of a turn, where it differs from that of the others; 0 for one piece of work.
    rehearsed
        Opened once before memory is looked at, so that what it imports and compiles does not count.
    rehearsal
        Arguments that differ then.
    """

    name: str
    function: Callable[..., Epoch]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    python: str | Path = sys.executable
    ahead: int = 8
    seconds: float | None = None
    rehearsed: bool = True
    rehearsal: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Measured:
    """What a side did in its turns; nothing where it could not be run."""

    rates: list[float]  # samples per second
    core_us: list[float]  # time of all cores per sample, in microseconds
    held_bytes: int = 0  # anonymous and shared pages beyond those of its imports
    mapped_bytes: int = 0  # pages of mapped files
    peak_bytes: int = 0  # resident in the process itself, beyond what was when it was opened; never missed
    first_seconds: float = 0  # from opening to the first batch

    @property
    def rate(self) -> float:
        """Samples per second, the median."""
        return median(self.rates)

    def ratios(self, other: Measured) -> list[float]:
        """How many times as fast as another side, turn by turn."""
        return [one / two for one, two in zip(self.rates, other.rates, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """For the file of results."""
        if not self.rates:
            return {"failed": True}
        return {
            "rates": [round(rate, 1) for rate in self.rates],
            "core_us": round(median(self.core_us), 3),
            "held_bytes": self.held_bytes,
            "mapped_bytes": self.mapped_bytes,
            "peak_bytes": self.peak_bytes,
            "first_seconds": round(self.first_seconds, 4),
        }


def compare(sides: Sequence[Side], rounds: int, seconds: float) -> dict[str, Measured]:
    """Measure all sides in turn, ``rounds`` times, and then their memory in turns whose speed does not count.

    Only sides in an environment of their own may fail.
    """
    measured = {side.name: Measured([], []) for side in sides}
    processes: dict[str, _Process] = {}
    try:
        for side in sides:
            tell(f"opening {side.name}")
            processes[side.name] = process = _Process(side)
            if not process.opened and side.python == sys.executable:
                raise RuntimeError(f"{side.name} could not be run")
        for number in range(rounds + 1):
            tell(f"round {number + 1} of {rounds}" if number < rounds else "memory")
            for side in sides:
                turn = seconds if side.seconds is None else side.seconds
                answer = processes[side.name].turn(turn, watch=number == rounds)
                into = measured[side.name]
                if answer is None:
                    into.rates.clear()
                elif number < rounds:
                    into.rates.append(answer["rate"])
                    into.core_us.append(answer["core_us"])
                else:
                    into.held_bytes, into.mapped_bytes = answer["held"], answer["mapped"]
                    into.peak_bytes, into.first_seconds = answer["peak"], answer["first"]
    finally:
        for process in processes.values():
            process.end()
    return measured


def compare_here(epochs: Mapping[str, Epoch], rounds: int, seconds: float, ahead: int = 8) -> dict[str, Measured]:
    """The same without processes: faster to begin, and what one side leaves in memory is there for the next."""
    batches = {name: _endless(epoch) for name, epoch in epochs.items()}
    measured = {name: Measured([], []) for name in epochs}
    for number in range(rounds + 1):
        for name, epoch in batches.items():
            for _ in range(ahead):
                next(epoch)
            used = _core_seconds()
            samples, took = _take(epoch, seconds)
            if number:  # the first round compiles
                measured[name].rates.append(samples / took)
                measured[name].core_us.append(1e6 * (_core_seconds() - used) / samples)
    return measured


def once(function: Callable[..., Any], python: str | Path = sys.executable, **arguments: Any) -> Any:
    """The result of a function, as JSON holds it, from a process that ends with it."""
    command = _command(python, function, arguments)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment())
    return json.loads(done.stdout.splitlines()[-1])


def tell(what: str) -> None:
    """Say what is being done."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


class _Process:
    """The process of a side; it and its children are stopped while others measure."""

    def __init__(self, side: Side) -> None:
        command = _command(side.python, side.function, side.arguments)
        command += ["serve", str(side.ahead)]
        if side.rehearsed:
            command.append(json.dumps({**side.arguments, **side.rehearsal}, default=str))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment(),
        )
        self.opened = self._answer() is not None
        self._signal(signal.SIGSTOP)

    def turn(self, seconds: float, *, watch: bool) -> dict[str, Any] | None:
        """Let it run for a while; None if it has ended."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"seconds": seconds, "watch": watch}) + "\n")
            self._process.stdin.flush()
        answer = self._answer()
        self._signal(signal.SIGSTOP)
        return answer

    def end(self) -> None:
        """Kill it."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _answer(self) -> dict[str, Any] | None:
        """The next line of JSON."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        return None


def _command(python: str | Path, function: Callable[..., Any], arguments: Mapping[str, Any]) -> list[str]:
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        module = main.__spec__.name if main.__spec__ else Path(str(main.__file__)).stem
    return [str(python), "-m", "harness.sides", module, function.__qualname__, json.dumps(arguments, default=str)]


def environment() -> dict[str, str]:
    """That of a process that imports the programs of ``bench/`` by name."""
    path = os.pathsep.join(part for part in (str(BENCH), os.environ.get("PYTHONPATH")) if part)
    return {**os.environ, "PYTHONPATH": path}


def memory_used(process: int | None = None) -> tuple[int, int]:
    """Anonymous and shared pages of a process and its children, and pages of mapped files, each counted once."""
    own = mapped = 0
    for pid in family(process or os.getpid()):
        with suppress(OSError):  # gone
            sizes = {name: int(size) << 10 for name, size in _SIZE.findall(_text(pid, "smaps_rollup"))}
            own += sizes["Pss_Anon"] + sizes["Pss_Shmem"]
            mapped += sizes["Pss_File"]
    return own, mapped


def family(process: int) -> list[int]:
    """A process and its children, and theirs."""
    processes = [process]
    for pid in processes:
        with suppress(OSError):
            processes += map(int, _text(pid, f"task/{pid}/children").split())
    return processes


class Watch:
    """The peak of memory beyond that of the beginning. Sampling takes time: never while speed counts."""

    def __init__(self, before: tuple[int, int] | None = None) -> None:
        self.held_bytes = self.mapped_bytes = 0
        self._before = before or memory_used()
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
            own, mapped = memory_used()
            self.held_bytes = max(self.held_bytes, own - self._before[0])
            self.mapped_bytes = max(self.mapped_bytes, mapped - self._before[1])


def _text(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _resident(which: str) -> int:
    """Resident bytes of this process: RSS now, HWM at most so far."""
    return int(_text(os.getpid(), "status").partition(f"Vm{which}:")[2].split()[0]) << 10


def _core_seconds() -> float:
    """Time that this process and its children have had a core."""
    spent = 0
    for pid in family(os.getpid()):
        with suppress(OSError):
            spent += sum(map(int, _text(pid, "stat").rpartition(")")[2].split()[11:15]))  # with children that ended
    return spent / _TICK


def _serve(function: Callable[..., Epoch], arguments: Mapping[str, Any], ahead: str, rehearsal: str = "") -> None:
    """Open, warm up, and take a turn for each line that comes in."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # where memory runs out, a side ends and nothing else
    ctypes.CDLL(None).prctl(_WITH_PARENT, signal.SIGKILL)  # a stopped side would outlive a killed comparison
    if rehearsal:
        next(function(**json.loads(rehearsal))())
        gc.collect()
    watch, resident, started = Watch(), _resident("RSS"), time.perf_counter()
    with watch:
        batches = _endless(function(**arguments))
        next(batches)
        first = time.perf_counter() - started
        _take(batches, 1.0)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        for _ in range(int(ahead)):
            next(batches)
        used = _core_seconds()
        if asked["watch"]:
            with watch:
                _take(batches, asked["seconds"])
            answer: dict[str, float] = {"held": watch.held_bytes, "mapped": watch.mapped_bytes}
            answer |= {"peak": _resident("HWM") - resident, "first": first}
        else:
            samples, seconds = _take(batches, asked["seconds"])
            answer = {"rate": samples / seconds, "core_us": 1e6 * (_core_seconds() - used) / samples}
        print(json.dumps(answer), flush=True)
    os._exit(0)  # worker processes of some sides would be waited for in vain


def _take(batches: Iterator[int], seconds: float) -> tuple[int, float]:
    """Samples and the time they took: at least one batch, for at least so many seconds."""
    started = time.perf_counter()
    samples = next(batches)
    while (took := time.perf_counter() - started) < seconds:
        samples += next(batches)
    return samples, took


def _endless(epoch: Epoch) -> Iterator[int]:
    while True:
        yield from epoch()


def _main() -> None:
    module, name, arguments, *options = sys.argv[1:]
    function = getattr(import_module(module), name)
    if options:
        _serve(function, json.loads(arguments), *options[1:])
    else:
        print("\n" + json.dumps(function(**json.loads(arguments))))


if __name__ == "__main__":
    _main()
