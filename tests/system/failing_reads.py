"""A library for a process of which reads and opens below a folder fail: ``arm(folder, nth, errno)``, ``count()``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def built(folder: Path) -> Path:
    """The library, to be preloaded; skips the test where nothing compiles it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    path = folder / "failing_read.so"
    source = Path(__file__).with_name("failing_read.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


def printed(library: Path, program: str, *arguments: object) -> Any:
    """The JSON that a program prints last in a process with the library."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = os.environ | {"LD_PRELOAD": str(library)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
