"""How much memory a compressed file may ask for: its window or dictionary, the text that it refers back to.

A file states it in a few bytes, up to gigabytes, and the decompressor allocates it. What this machine allows decides
whether a file is read at all, never its content: a larger request ends the run.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from outofcore.errors import RawInputError
from outofcore.settings.machine import LEAST_WINDOW, PREFIX, load_machine, machine_file
from outofcore.settings.sizes import format_bytes


def most_window() -> int:
    """Most bytes that this machine allows."""
    file = machine_file(Path())
    edited = file.stat().st_mtime_ns if file else 0
    return _stated(Path.cwd(), edited, os.environ.get(f"{PREFIX}DECOMPRESSION"))


@cache
def _stated(folder: Path, edited: int, variable: str | None) -> int:
    """The setting, looked up once: that takes longer than to read a small file, and each .xz file asks."""
    del edited, variable
    return load_machine(folder).decompression


def require_window(size: int, name: str) -> None:
    """Raise RawInputError if decompressing needs more than this machine allows."""
    # Most files ask for less than any setting forbids: none is looked up for them.
    if size > LEAST_WINDOW and size > (most := most_window()):
        raise RawInputError(
            f"{name}: decompressing it takes a window of {format_bytes(size)}, and this machine allows "
            f"{format_bytes(most)}; allow more with decompression in machine.yaml (OUTOFCORE_DECOMPRESSION)"
        )
