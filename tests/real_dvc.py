"""The real DVC without its start: each command runs in a fork of a process that has imported what DVC needs.

``python -m tests.real_dvc`` is that process. It names no module of DVC but the command line's: what a command has
imported, it imports for those that follow.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_dvc(*arguments: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of DVC in a folder, as the program ``dvc`` does."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as notes:
        request = {"arguments": arguments, "folder": str(folder), "environment": {**environment}, "notes": notes}
        try:
            server.stdin.write(f"{json.dumps(request)}\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
        except BaseException:  # a timeout, perhaps: the answer that comes late is not that of the next command
            server.kill()
            server.wait()
            _server.cache_clear()
            raise
        told, complained = ((Path(notes) / name).read_text() for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess(["dvc", *arguments], code, told, complained)


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.real_dvc"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(server.wait)
    assert server.stdin is not None
    atexit.register(server.stdin.close)
    return server


def serve() -> None:
    """Answer each request with the exit code of its command; ends with the tests."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        gc.freeze()  # pages that no child writes to are not copied
        child = os.fork()
        if not child:
            run(**request)
        _, status = os.waitpid(child, 0)
        imported = Path(request["notes"], "imported").read_text().split()
        print(os.waitstatus_to_exitcode(status), flush=True)
        for name in imported:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def run(arguments: list[str], folder: str, environment: dict[str, str], notes: str) -> None:
    """Be the program ``dvc``."""
    for number, name in enumerate((os.devnull, f"{notes}/stdout", f"{notes}/stderr")):
        file = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["dvc", *arguments]
    before = {*sys.modules}
    from dvc.cli import main

    try:
        code = main(arguments)
    finally:
        Path(notes, "imported").write_text("\n".join(name for name in sys.modules if name not in before))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without taking down a thousand modules


if __name__ == "__main__":
    serve()
