"""The guard of a stage that writes: ask before, watch between shards, stop in one line."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outofcore.errors import SpaceError
from outofcore.sizes import format_bytes
from outofcore.space.filesystems import filesystem_of
from outofcore.space.forecast import Demand, Need, Purpose, demands

FULL = {errno.ENOSPC, errno.EDQUOT}
KEPT_SHARDS = "whole shards are kept; make room and run 'dvc repro' again, it goes on from there"
KEPT_CHECKPOINT = "the last checkpoint is kept; make room and run 'dvc repro' again, it goes on from there"
KEPT_STORE = "what was made is whole; make room and run 'dvc repro' again"


@dataclass
class Guard:
    """Keeps a stage from filling a disk.

    Attributes
    ----------
    section
        Section of params.yaml that the stage works for, named in the ways out.
    margin
        Share added to every forecast.
    reserve
        Bytes that stay free on a filesystem, but never more than a twentieth of it.
    kept
        What is left of the work if it has to stop, and how it goes on.
    """

    section: str
    margin: float
    reserve: int
    kept: str = KEPT_SHARDS
    _demands: tuple[Demand, ...] = field(default=(), init=False)

    def require(self, needs: Sequence[Need]) -> tuple[Demand, ...]:
        """Make sure, before the first byte, that all needs fit; from then on their filesystems are watched.

        Returns
        -------
        What each filesystem is asked for, and what is free there.

        Raises
        ------
        SpaceError
            If they do not; says for each filesystem what is needed, what is free, and the ways out.
        """
        self._demands = demands(needs, margin=self.margin, reserve=self.reserve)
        if short := [demand for demand in self._demands if not demand.fits]:
            message = "; ".join(
                f"{demand}. Ways out: {', or '.join(ways_out(demand, self.section))}" for demand in short
            )
            message = f"not enough room, nothing was written: {message}"
            raise SpaceError(message)
        return self._demands

    def watch(self, written: int = 0) -> None:
        """Look again, between two shards.

        Parameters
        ----------
        written
            Bytes of the store so far. Where it will be copied when it is whole, room for that must be left as well.

        Raises
        ------
        SpaceError
            If less than the reserve, and what those copies take, is free.
        """
        later = {Purpose.DVC_COPY}
        if any(need.purpose is Purpose.WORK for demand in self._demands for need in demand.needs):
            later.add(Purpose.STORE)  # grows elsewhere and is copied to its place when it is whole
        for demand in self._demands:
            copies = [need.purpose.value for need in demand.needs if need.purpose in later]
            kept = demand.reserve + written * len(copies)
            if (free := demand.filesystem.free()) < kept:
                parts = [f"{name} {format_bytes(written)}" for name in copies]
                parts.append(f"reserve {format_bytes(demand.reserve)}")
                message = (
                    f"{demand.filesystem} is nearly full: free are {format_bytes(free)}, to be kept are "
                    f"{format_bytes(kept)} ({', '.join(parts)}); {self.kept}"
                )
                raise SpaceError(message)

    @contextmanager
    def writing(self, folder: str | Path) -> Iterator[None]:
        """Turn the system's "no space left" into one line that names the filesystem.

        Parameters
        ----------
        folder
            Where is written.

        Raises
        ------
        SpaceError
            In place of an ``OSError`` of a full disk or an exhausted quota; every other error passes.
        """
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            message = f"{disk_full(error, Path(folder))}; {self.kept}"
            raise SpaceError(message) from error


def disk_full(error: OSError, folder: Path) -> str:
    """What to tell of a write that found no room."""
    filesystem = filesystem_of(error.filename if isinstance(error.filename, str) else folder)
    if error.errno == errno.EDQUOT:
        what = "this user's quota is used up"
    elif filesystem.without_inodes():
        what = "it has room for no further file (no inode is free)"
    else:
        what = f"it is full, free are {format_bytes(filesystem.free())}"
    return f"{filesystem}: {what}"


def ways_out(demand: Demand, section: str) -> list[str]:
    """Three ways to make it fit: write less, write elsewhere, remove what is old."""
    purposes = {need.purpose for need in demand.needs}
    copies = purposes & {Purpose.DVC_COPY, Purpose.MODEL_COPY}
    if not purposes & {Purpose.STORE, Purpose.WORK, Purpose.DVC_COPY}:
        less = f"a smaller model ({section}.train.preset)"
    else:
        less = f"a smaller store (codec zstd or a higher level in {section}.store, stricter {section}.filters)"
    if copies and purposes & {Purpose.STORE, Purpose.MODEL}:
        elsewhere = "links in place of DVC's copy ('dvc config cache.type hardlink,symlink')"
        elsewhere += " or the cache on another disk ('dvc cache dir --local FOLDER')"
    elif copies:
        elsewhere = "the cache on another disk ('dvc cache dir --local FOLDER')"
    elif Purpose.WORK in purposes:
        elsewhere = "another folder for work in progress (scratch in machine.yaml)"
    else:
        elsewhere = "the project on another disk"
    return [
        less,
        elsewhere,
        f"old versions removed ('dvc gc -w', if the cache lies on {demand.filesystem.mount})",
    ]
