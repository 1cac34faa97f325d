"""A bar as a terminal shows it."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios

import pytest

SHOWN = """
from outofcore.conversion.run import progress_facts
from outofcore.display.bar import Bar
from pathlib import Path
with Bar() as bar:
    task = bar.add_task("convert chess", total=1000)
    bar.update(task, completed=420, facts=progress_facts(12_345_678, 12_345, 0.5, 120_500_000_000, Path("/")))
"""


@pytest.mark.parametrize("columns", [80, 60])
def test_nothing_of_a_conversion_is_cut(columns: int) -> None:
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-c", SHOWN]
    subprocess.run(command, stdin=terminal, stderr=terminal, env=environment | {"TERM": "xterm"}, check=True)
    os.close(terminal)
    lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", os.read(controller, 65536).decode()).replace("\r", "\n").split("\n")
    os.close(controller)
    assert max(map(len, lines)) <= columns
    bar = next(line for line in reversed(lines) if " %" in line)
    assert re.fullmatch(r"convert chess [━╸╺]{4,} +42 % (-:--:--|\d:\d\d:\d\d) *", bar)
    facts = " ".join(" ".join(lines[lines.index(bar) :]).split())
    assert re.search(r"12,345,678 records \([\d,]+/s\), 12,345 rejected, 120 GB written, [\d.]+ [TG]B free", facts)
