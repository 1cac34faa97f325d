"""Programs and functions in processes of their own, each a fork of one that has imported what takes seconds."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, util
from pathlib import Path

FILES = 20
CONTEXT = get_context("forkserver")  # one server for all: it has no thread and nothing of outofcore
CONTEXT.set_forkserver_preload(["dvc.cli.parser", "dvc.repo", "numba", "psutil", "pydantic", "torch", "typer", "zarr"])
util.get_temp_dir()  # of its socket, whose path may have 107 bytes: before a test has its temporary files elsewhere


class Program:
    """What ``python -c CODE ARGUMENTS`` does in a folder with further variables, in a process group of its own."""

    def __init__(self, code: str, *arguments: str, folder: Path, **variables: str) -> None:
        self._notes, self._arguments = tempfile.TemporaryDirectory(), arguments
        streams = [os.devnull, *(f"{self._notes.name}/{name}" for name in ("stdout", "stderr"))]
        self.process = CONTEXT.Process(
            target=_program, args=(code, arguments, folder, {**os.environ, **variables}, streams), daemon=False
        )
        self.process.start()

    def ended(self, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Wait for its end."""
        with self._notes:
            try:
                self.process.join(timeout)
            finally:
                if self.process.exitcode is None:
                    self.process.kill()
            assert self.process.exitcode is not None, f"it has not ended after {timeout} s"
            output, errors = (Path(self._notes.name, name).read_text() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(["-c", *self._arguments], self.process.exitcode, output, errors)


def run_program(code: str, *arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A :class:`Program` that has ended."""
    return Program(code, *arguments, folder=folder, **variables).ended()


def run_dvc(*arguments: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A command of the real DVC in a folder."""
    code = "import sys; from dvc.cli import main; sys.exit(main(sys.argv[1:]))"
    return run_program(code, *arguments, folder=folder, **environment)


def _program(
    code: str, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], streams: list[str]
) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    for number, name in enumerate(streams):
        file = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    exec(compile(code, "<program>", "exec"), {"__name__": "__main__"})


def with_few_files(function: Callable[..., object], *arguments: object, files: int = FILES) -> None:
    """Call the function in a process that may open so many files more than it has open; its errors are raised here."""
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as process:
        process.submit(_limited, function, *arguments, files=files).result()


def _limited(function: Callable[..., object], *arguments: object, files: int) -> None:
    free = [os.open(os.devnull, os.O_RDONLY) for _ in range(files)]
    for each in free:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(free) + 1, max(free) + 1))
    function(*arguments)
