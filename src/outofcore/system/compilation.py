"""How functions are compiled, and the one folder in which Numba keeps their machine code.

Numba only checks the file of a function: after an edit of a callee or constant in another file it would use the old
machine code. So the folder is named by a digest of all files that hold compiled functions or what these read: an edit
of one compiles all of them again, about 15 s of a processor. A test keeps what they read in those files.
"""

from __future__ import annotations

import errno
import gc
import hashlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from outofcore.display.console import interrupted

__all__ = ["inlined_kernel", "inner_kernel", "kernel", "njit", "variable"]

PACKAGE = Path(__file__).resolve().parents[1]
# Files of which compiled functions read constants, next to those that import this one.
CONSTANTS = ("domains/*/schema.py", "domains/*/codes.py", "domains/*/moves.py", "store/*.py")
KEPT = 4  # folders: the current one, and those of branches that someone switches between
ROOM_BYTES = 64 << 20  # of free space without which nothing is kept
BLOCK_BYTES = 64 << 10
Function = TypeVar("Function", bound=Callable[..., Any])
_log = logging.getLogger("outofcore")

variable: Any = numba.int64
"""A number to begin with that is no constant to the compiler: what is called with constants is compiled once more."""


class _Listener(event.Listener):
    """Says at a terminal, once in a process, why nothing seems to happen.

    Meanwhile nothing collects garbage, which would take a sixth of the time: Numba makes millions of objects.
    """

    said = False
    depth = 0  # of functions, each compiled for the one before
    collects = True

    def on_start(self, _: object) -> None:
        if not self.depth:
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1
        if not self.said and sys.stderr.isatty():
            self.said = True
            sys.stderr.write("compiling machine code, once for this version of outofcore: about 20 s\n")

    def on_end(self, _: object) -> None:
        self.depth -= 1
        if self.collects and not self.depth:
            gc.enable()


class _Stop(event.Listener):
    """Ends a compilation, in whatever thread, with the next of its passes after Ctrl-C: few take a second."""

    def on_start(self, _: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt

    def on_end(self, _: object) -> None:
        pass


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]
event.register("numba:run_pass", _Stop())  # type: ignore[no-untyped-call]


def njit(**options: Any) -> Callable[[Function], Function]:
    """``numba.njit``; with ``cache=True`` the machine code of this package's functions is kept, where it can be."""

    def compiled(function: Function) -> Function:
        file, settings = Path(function.__code__.co_filename).resolve(), cast(Any, numba.config)
        if not options.get("cache") or PACKAGE not in file.parents:  # as Numba keeps it
            return cast(Function, numba.njit(**{**options, "cache": options.get("cache") and file.is_file()})(function))
        configured = settings.CACHE_DIR
        folder = _folder(configured)
        try:
            settings.CACHE_DIR = str(folder)  # Numba reads it here, and for this function never again
            return cast(Function, numba.njit(**{**options, "cache": folder is not None})(function))
        finally:
            settings.CACHE_DIR = configured

    return compiled


def kernel(function: Function) -> Function:
    """Compile a function that allocates nothing; it runs without the GIL, and an integer division by 0 gives 0.

    With ``_nrt``, Numba counts a reference for each array that is passed from one compiled function to another, an
    atomic operation: reading SGF took 1.4 times the processor time. No public option of Numba leaves it out.
    """
    return _compiled(function)


def inner_kernel(function: Function) -> Function:
    """Compile a part of other kernels; Python must not call it: what that needs would take a sixth of the time."""
    return _compiled(function, no_cpython_wrapper=True)


def inlined_kernel(function: Function) -> Function:
    """Compile a part of another kernel into it: to pass many arrays takes longer than most parts run."""
    return _compiled(function, no_cpython_wrapper=True, forceinline=True)


def _compiled(function: Function, *, no_cpython_wrapper: bool = False, forceinline: bool = False) -> Function:
    return njit(
        nogil=True,
        cache=True,
        error_model="numpy",
        # Stated either way: what a kernel calls would otherwise be compiled as the kernel is.
        forceinline=forceinline,
        no_cpython_wrapper=no_cpython_wrapper,
        no_cfunc_wrapper=True,
        _nrt=False,
    )(function)


@cache
def _folder(configured: str) -> Path | None:
    """The folder for machine code, in the first place that can be written."""
    name = f"machine-code.{_digest()}"
    for place in _places(configured):
        with suppress(OSError):  # then the next place
            earlier = {path: path.stat().st_mtime for path in place.glob("machine-code.*") if path.name != name}
            (place / name).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place) as stream:
                stream.write(bytes(BLOCK_BYTES))  # a user's quota may be used up
            if shutil.disk_usage(place).free < ROOM_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))
            for path in sorted(earlier, key=earlier.__getitem__)[: 1 - KEPT or None]:
                shutil.rmtree(path, ignore_errors=True)
            return place / name
    _log.warning(
        "no place for machine code has %s MiB that can be written, so it is compiled at each start; set "
        "NUMBA_CACHE_DIR to a folder that has",
        ROOM_BYTES >> 20,
    )
    return None


def _digest() -> str:
    """16 hex digits over the files with compiled functions, and those with constants that these read."""
    files = {path: path.read_bytes() for path in PACKAGE.rglob("*.py")}
    constants = {path for pattern in CONSTANTS for path in PACKAGE.glob(pattern)}
    digest = hashlib.sha256()
    for path in sorted(files):
        if path in constants or b"outofcore.system.compilation import" in files[path]:
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + files[path] + b"\0")
    return digest.hexdigest()[:16]


def _places(configured: str) -> Iterator[Path]:
    """As configured, in the package, in the user's cache."""
    if configured:
        yield Path(configured) / "outofcore"
    yield PACKAGE / "__pycache__"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path raises without a home
    if os.path.isabs(home):  # noqa: PTH117 - as above
        yield Path(home) / "outofcore"
