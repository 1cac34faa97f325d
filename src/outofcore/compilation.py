"""Cache machine code by a digest of its sources.

Numba only checks the file of a compiled function: after an edit of a callee or constant in another file, the old
machine code stays in use. Functions of this package are cached under a digest of their file and all files of the
package that it imports, directly or indirectly. Functions elsewhere are cached as Numba does it.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

import numba
from numba import njit
from numba.core import caching

__all__ = ["PackageCacheLocator", "inlined_kernel", "kernel", "njit", "source_digest"]

PACKAGE = Path(__file__).resolve().parent
# Folders kept per file: its current one, and those of branches that someone switches between.
KEPT = 4
Function = TypeVar("Function", bound=Callable[..., Any])
_IMPORT = re.compile(rb"^\s*(?:from|import)\s+([a-zA-Z_][\w.]*)", re.MULTILINE)


def kernel(function: Function) -> Function:
    """Compile a function that allocates nothing; it runs without the GIL, and an integer division by 0 gives 0.

    Without ``_nrt``, Numba counts a reference for each array that is passed from one compiled function to another, an
    atomic operation that took most of the time of a scanner's loop.
    """
    return _compiled(function, inlined=False)


def inlined_kernel(function: Function) -> Function:
    """Compile a part of another kernel into it: to pass many arrays takes longer than most parts run."""
    return _compiled(function, inlined=True)


def _compiled(function: Function, *, inlined: bool) -> Function:
    # Stated either way: what a kernel calls would otherwise be compiled as the kernel is.
    options: dict[str, Any] = {
        "nogil": True,
        "cache": True,
        "error_model": "numpy",
        "forceinline": inlined,
        "_nrt": False,
    }
    compiled: Function = njit(**options)(function)
    return compiled


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


_CompileResults: Any = caching.CompileResultCacheImpl


class PackageCacheLocator(caching._CacheLocator):  # noqa: SLF001 - Numba has no public way to set the place
    """Caches a function of this package in a folder named by the digest, in the first writable place."""

    def __init__(self, py_func: Callable[..., Any], folder: Path, digest: str) -> None:
        self._line = py_func.__code__.co_firstlineno
        self._folder = folder
        self._digest = digest

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        """The line of the function."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Self | None:
        """A locator; None for a function of another package."""
        file = Path(py_file)
        if PACKAGE not in file.resolve().parents or not file.is_file():
            return None
        digest = source_digest(file)
        for place in _places(file):
            locator = cls(py_func, place / f"{file.stem}.{digest[:16]}", digest)
            try:
                if not locator._folder.exists():
                    _forget(place, file.stem)
                locator.ensure_cache_path()  # type: ignore[no-untyped-call]
            except OSError:
                continue
            return locator
        return None


def _places(file: Path) -> Iterator[Path]:
    """Cache folders: as configured, next to the source, in the user's cache, with temporary files."""
    inside = "-".join(file.resolve().parent.relative_to(PACKAGE).parts) or "package"
    if chosen := vars(numba.config)["CACHE_DIR"]:
        yield Path(chosen) / "outofcore" / inside
    yield file.parent / "__pycache__"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path raises without a home
    if os.path.isabs(home):  # noqa: PTH117 - as above
        yield Path(home) / "outofcore" / inside
    yield _temporary() / inside


@cache
def _temporary() -> Path:
    """A folder for temporary files that only this user can write to, since code in it is executed."""
    shared = Path(tempfile.gettempdir()) / f"outofcore-{os.getuid()}"
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        facts = shared.lstat()
        if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077:
            return shared
    except OSError:
        pass
    own = Path(tempfile.mkdtemp(prefix="outofcore-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def _forget(place: Path, stem: str) -> None:
    """Remove the folders of a file's earlier digests, except the latest."""
    earlier = [path for path in place.glob(f"{stem}.{'[0-9a-f]' * 16}") if path.is_dir()]
    for path in sorted(earlier, key=lambda each: each.stat().st_mtime)[: 1 - KEPT or None]:
        shutil.rmtree(path, ignore_errors=True)


def _install() -> None:
    classes = _CompileResults._locator_classes  # noqa: SLF001 - as above
    if PackageCacheLocator not in classes:
        classes.insert(0, PackageCacheLocator)


_install()
