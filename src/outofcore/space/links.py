"""Which links work between two folders, and what DVC's commit therefore costs.

As in DVC 3.67: the output's files enter the cache by reflink, else (only if ``hardlink`` is first in ``cache.type``) by
hard link, else by copy. Then a file of the workspace is replaced by a link, unless it already is of an allowed type; a
plain file counts as ``copy`` and ``reflink``. So a list with ``copy`` keeps two copies whenever the first step had to
copy.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from outofcore.errors import SpaceError
from outofcore.space.dvc_cache import DvcCache
from outofcore.space.filesystems import existing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FICLONE = 0x40049409  # of Linux: share the blocks of another file


@dataclass(frozen=True)
class Commit:
    """How DVC commits an output."""

    cache: DvcCache
    into_cache: str  # reflink, hardlink or copy
    in_workspace: str  # afterwards: reflink, hardlink, symlink or copy
    on_checkout: str  # how a checkout restores the output, also in an experiment's workspace

    @property
    def copies_made(self) -> int:
        """Multiples of the output's size that the commit writes, on the cache's filesystem."""
        return int(self.into_cache == "copy")

    @property
    def copies_kept(self) -> int:
        """Multiples of the output's size kept afterwards, in workspace and cache together."""
        return 1 + int(self.copies_made == 1 and self.in_workspace == "copy")

    @property
    def copies_checked_out(self) -> int:
        """Multiples of the output's size that a checkout writes."""
        return int(self.on_checkout == "copy")

    def __str__(self) -> str:
        kept = "one copy" if self.copies_kept == 1 else "two copies, for good"
        peak = ", two while it commits" if self.copies_made and self.copies_kept == 1 else ""
        return f"{self.in_workspace} (cache.type {','.join(self.cache.types)} of {self.cache.origin}): {kept}{peak}"


def commit_of(output: str | Path, cache: DvcCache) -> Commit:
    """Predict DVC's commit of an output by trying links; raises SpaceError if no type in ``cache.type`` works."""
    workspace, objects = existing(Path(output).parent), existing(cache.objects)
    working = working_links(objects, workspace)
    commit = plan_commit(cache, working)
    if commit is None:
        raise SpaceError(
            f"{cache.origin}: cache.type {','.join(cache.types)} allows no link that works between {cache.folder} and "
            f"{workspace} (what works: {', '.join(working)}), so DVC would fail to commit; "
            f"set one that does: 'dvc config cache.type {','.join(working)}'"
        )
    return commit


def plan_commit(cache: DvcCache, working: tuple[str, ...]) -> Commit | None:
    """DVC's commit, given the links that work; None if it would fail."""
    order = ("reflink", "hardlink", "copy") if cache.types[0] == "hardlink" else ("reflink", "copy")
    into_cache = next(link for link in order if link in working)
    usable = [link for link in cache.types if link in working]
    if into_cache == "hardlink" or {"copy", "reflink"} & set(cache.types):
        in_workspace = into_cache
    elif usable:
        in_workspace = usable[0]
    else:
        return None
    return Commit(cache, into_cache, in_workspace, usable[0] if usable else "copy")


def working_links(source: Path, target: Path) -> tuple[str, ...]:
    """Links that can be made in ``target`` to a file in ``source``; always includes ``copy``.

    If a folder is not writable, nothing can be tried, and only ``copy``, the most expensive, is returned. Test files
    are removed at once. Reflinks are tried on Linux only; elsewhere they count as copies.
    """
    name = f".outofcore-link-{secrets.token_hex(8)}"
    file, link = source / name, target / f"{name}.link"
    working = []
    try:
        with file.open("xb"):
            pass
        for kind in ("reflink", "hardlink", "symlink"):
            with suppress(OSError):
                make_link(kind, file, link)
                working.append(kind)
            with suppress(FileNotFoundError):
                link.unlink()
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
    finally:
        with suppress(OSError):
            file.unlink()
    return (*working, "copy")


def make_link(kind: str, source: Path, link: Path) -> None:
    """Make a link of one of DVC's kinds, of which ``copy`` is one."""
    if kind == "copy":
        shutil.copyfile(source, link)
    elif kind == "reflink":
        _reflink(source, link)
    else:
        (os.link if kind == "hardlink" else os.symlink)(source, link)


def _reflink(source: Path, link: Path) -> None:
    if fcntl is None or sys.platform != "linux":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    with source.open("rb") as old, link.open("xb") as new:
        fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
