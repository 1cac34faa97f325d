"""Imports of large packages, without collecting garbage in between; Ctrl-C ends them in one line."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from outofcore.display.console import stopped_at_once


@contextmanager
def large_imports() -> Iterator[None]:
    """Import packages such as torch: what they make stays, and is not searched for garbage again and again.

    The searches take a sixth of the start of a training.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        with stopped_at_once():
            yield
    finally:
        gc.freeze()
        if before:
            gc.enable()
