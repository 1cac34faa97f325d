"""Machine code is kept by its sources; a cache that is damaged, full or cannot be written stops nobody.

Numba only checks the file of a compiled function: after an edit of a callee or constant in another file, the old
machine code stays in use. What a file compiles is kept in a folder named by the digest of that file and of all files of
this package that it imports, directly or indirectly. Numba trusts what it finds there: a file cut by a power loss stops
a start, and a flipped bit can end the process. Each folder therefore lists the sums of its files, and what is not as
listed is compiled again.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from outofcore.display.console import interrupted
from outofcore.errors import StoreError
from outofcore.system.durable import replace_text

__all__ = ["inlined_kernel", "inner_kernel", "kernel", "njit", "source_digest", "variable"]

PACKAGE = Path(__file__).resolve().parents[1]
# Folders kept per file: its current one, and those of branches that someone switches between.
KEPT = 4
# Free space without which nothing is kept: more than one file compiles.
ROOM_BYTES = 8 << 20
BLOCK_BYTES = 64 << 10
SUMS = "sums.json"
Function = TypeVar("Function", bound=Callable[..., Any])
_IMPORT = re.compile(rb"^\s*(?:from|import)\s+([a-zA-Z_][\w.]*)", re.MULTILINE)
_log = logging.getLogger("outofcore")

variable: Any = numba.int64
"""A number to begin with that is no constant to the compiler: what is called with constants is compiled once more."""


class _Listener(event.Listener):
    """Says at a terminal, once in a process, why nothing seems to happen; lists what was compiled before.

    Meanwhile nothing collects garbage, which would take a sixth of the time: Numba makes millions of objects.

    Numba keeps a function after the event that it is compiled, so each is listed with the next, and the last at exit.
    """

    said = False
    last: Path | None = None
    depth = 0  # of functions, each compiled for the one before
    collects = True

    def on_start(self, _: object) -> None:
        self._list_last()
        if not self.depth:
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1
        if not self.said and sys.stderr.isatty():
            self.said = True
            sys.stderr.write("compiling machine code, once for this version of outofcore: about 20 s\n")

    def on_end(self, compiled: Any) -> None:
        self.depth -= 1
        if self.collects and not self.depth:
            gc.enable()
        self._list_last()
        self.last = _folders.get(compiled.data["dispatcher"].py_func.__code__.co_filename)

    def _list_last(self) -> None:
        if self.last:
            _list(self.last)


class _Stop(event.Listener):
    """Ends a compilation, in whatever thread, with the next of its passes after Ctrl-C: few take a second."""

    def on_start(self, _: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt

    def on_end(self, _: object) -> None:
        pass


_folders: dict[str, Path] = {}
event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]
event.register("numba:run_pass", _Stop())  # type: ignore[no-untyped-call]


def njit(**options: Any) -> Callable[[Function], Function]:
    """``numba.njit``; with ``cache=True`` machine code is kept by its sources, and not at all where it cannot be."""

    def compiled(function: Function) -> Function:
        file = Path(function.__code__.co_filename)
        if not options.get("cache") or not file.is_file():
            return cast(Function, numba.njit(**options)(function))
        settings: Any = numba.config
        configured = settings.CACHE_DIR
        folder = _folder(file, configured)
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
def source_digest(file: Path | None = None) -> str:
    """SHA-256 over a source file and all its imports from the package, or over the whole package."""
    files = _closure(file.resolve()) if file else PACKAGE.rglob("*.py")
    digest = hashlib.sha256()
    for each in sorted(files):
        name = each.relative_to(PACKAGE).as_posix() if PACKAGE in each.parents else each.name
        digest.update(f"{name}\0{hashlib.sha256(each.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _closure(file: Path) -> set[Path]:
    found, waiting = {file}, [file]
    while waiting:
        for each in _imported(waiting.pop()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Files of the package that a file imports; all files of an imported folder."""
    found: set[Path] = set()
    for name in _IMPORT.findall(file.read_bytes()):
        first, *rest = name.decode().split(".")
        if first == PACKAGE.name:
            place = PACKAGE.joinpath(*rest)
            found.update(place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")])
    return frozenset(each for each in found if each.is_file())


@cache
def _folder(file: Path, configured: str) -> Path | None:
    """The folder for a file's machine code, in the first place that can be written; damaged files in it are removed."""
    name = f"{file.stem}.{source_digest(file)[:16]}"
    for place in _places(file, configured):
        folder = place / name
        with contextlib.suppress(OSError):  # then the next place
            if not folder.exists():
                _forget(place, file.stem)
            _check_room(folder)
            _remove_damaged(folder)
            atexit.register(_list, folder)
            _folders[str(file)] = folder
            return folder
    _warn(
        f"no place for machine code has {ROOM_BYTES >> 20} MiB that can be written, so it is compiled at each start; "
        "set NUMBA_CACHE_DIR to a folder that has"
    )
    return None


def _places(file: Path, configured: str) -> Iterator[Path]:
    """As configured, next to the source, in the user's cache."""
    parents = file.resolve().parents
    inside = "-".join(parents[0].relative_to(PACKAGE).parts) if PACKAGE in parents else ""
    if configured:
        yield Path(configured) / "outofcore" / (inside or "package")
    yield file.parent / "__pycache__"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path raises without a home
    if os.path.isabs(home):  # noqa: PTH117 - as above
        yield Path(home) / "outofcore" / (inside or "package")


def _check_room(folder: Path) -> None:
    """Raise OSError unless files can be made in a folder, with room for machine code."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as stream:
        stream.write(bytes(BLOCK_BYTES))  # a user's quota may be used up
    if shutil.disk_usage(folder).free < ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


@cache
def _warn(message: str) -> None:
    _log.warning("%s", message)


def _remove_damaged(folder: Path) -> None:
    """Remove machine code that is not as listed: damaged, or compiled last by a process that was killed.

    Nothing is said, as what another process is compiling now is not listed yet either: it costs one compilation more.
    """
    known = _listed(folder)
    for name, content in _contents(folder):
        if known.get(name) != zlib.crc32(content):
            (folder / name).unlink(missing_ok=True)


def _list(folder: Path) -> None:
    """List the sums of a folder's files, for later processes."""
    with contextlib.suppress(OSError, StoreError):  # a cache is not worth an error
        sums = {name: zlib.crc32(content) for name, content in _contents(folder) if content}
        if sums != _listed(folder):
            replace_text(folder / SUMS, json.dumps(sums))


def _listed(folder: Path) -> dict[str, int]:
    try:
        return dict(json.loads((folder / SUMS).read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*.nb[ic]")):
        with contextlib.suppress(FileNotFoundError):  # removed by another process
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _forget(place: Path, stem: str) -> None:
    """Remove the folders of a file's earlier digests, except the latest."""
    earlier = [path for path in place.glob(f"{stem}.{'[0-9a-f]' * 16}") if path.is_dir()]
    for path in sorted(earlier, key=lambda each: each.stat().st_mtime)[: 1 - KEPT or None]:
        shutil.rmtree(path, ignore_errors=True)
