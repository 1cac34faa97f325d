"""Disk guard of a stage: check space before writing, watch it between shards, stop with a one-line error."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outofcore.errors import SpaceError
from outofcore.settings.sizes import format_bytes
from outofcore.space.dvc_cache import REMOVE_OLD, find_cache
from outofcore.space.filesystems import filesystem_of
from outofcore.space.forecast import Demand, Need, Purpose, demands
from outofcore.system.project import project_of

FULL = {errno.ENOSPC, errno.EDQUOT}
KEPT_SHARDS = "finished shards are kept; make room and run the same command again to resume"
KEPT_CHECKPOINT = "the last checkpoint is kept; make room and run the same command again to resume"
KEPT_STORE = "what was made is whole; make room and run the same command again"


@dataclass
class Guard:
    """Keeps a stage from filling a disk."""

    section: str  # params section named in the suggestions
    margin: float  # share added to every forecast
    reserve: int  # bytes that stay free per filesystem, at most a twentieth of it
    kept: str = KEPT_SHARDS  # what remains after a stop, and how to resume
    ways: tuple[str, ...] = ()  # ways out of a disk that is too small; empty: those of a stage
    _demands: tuple[Demand, ...] = field(default=(), init=False)

    def require(self, needs: Sequence[Need]) -> tuple[Demand, ...]:
        """Check, before the first byte, that all needs fit, and start watching; SpaceError lists needs and remedies."""
        self._demands = demands(needs, margin=self.margin, reserve=self.reserve)
        if short := [demand for demand in self._demands if not demand.fits]:
            message = "; ".join(
                f"{demand}. Ways out: {', or '.join(self.ways or ways_out(demand, self.section))}" for demand in short
            )
            message = f"not enough room, nothing was written: {message}"
            raise SpaceError(message)
        return self._demands

    def watch(self, written: int = 0, waiting: int = 0) -> None:
        """Check between units that the rest of the store so far, the reserve and the final copy still fit.

        ``written`` are the bytes of the store on the disk, ``waiting`` at most those that are not written yet.
        """
        purposes = {need.purpose for demand in self._demands for need in demand.needs}
        later, growing = {Purpose.DVC_COPY}, Purpose.STORE
        if Purpose.WORK in purposes:
            later.add(Purpose.STORE)  # grows elsewhere and is copied to its place when it is whole
            growing = Purpose.WORK
        copied = format_bytes(written + waiting)
        for demand in self._demands:
            copies = [need.purpose.value for need in demand.needs if need.purpose in later]
            rest = waiting if growing in demand.purposes else 0
            kept = demand.reserve + (written + waiting) * len(copies)
            if (free := demand.filesystem.free()) - rest < kept:
                parts = [f"{name} {copied}" for name in copies]
                parts.append(f"reserve {format_bytes(demand.reserve)}")
                still = f"up to {format_bytes(rest)} are still to be written, " if rest else ""
                raise SpaceError(
                    f"{demand.filesystem} is nearly full: {format_bytes(free)} are free, {still}"
                    f"{format_bytes(kept)} must stay free ({', '.join(parts)}); {self.kept}"
                )

    @contextmanager
    def writing(self, folder: str | Path) -> Iterator[None]:
        """Turn a full disk or quota into a one-line SpaceError; an OSError without a file name gets ``folder``."""
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                if error.filename is None and error.errno is not None:
                    error.filename = str(folder)
                raise
            raise SpaceError(f"{disk_full(error, Path(folder))}; {self.kept}") from error


def disk_full(error: OSError, folder: Path) -> str:
    """Message for a write that found no room."""
    filesystem = filesystem_of(error.filename if isinstance(error.filename, str) else folder)
    if error.errno == errno.EDQUOT:
        what = "this user's quota is used up"
    elif filesystem.without_inodes():
        what = "it can hold no more files (no inode is free)"
    else:
        what = f"it is full, {format_bytes(filesystem.free())} are free"
    return f"{filesystem}: {what}"


def ways_out(demand: Demand, section: str) -> list[str]:
    """Three ways to make it fit: write less, write elsewhere, remove old files."""
    purposes = {need.purpose for need in demand.needs}
    copies = purposes & {Purpose.DVC_COPY, Purpose.MODEL_COPY}
    if not purposes & {Purpose.STORE, Purpose.WORK, Purpose.DVC_COPY}:
        less = f"a smaller model ({section}.train.preset)"
    else:
        less = f"a smaller store (codec zstd in {section}.store, stricter {section}.filters)"
    if copies:
        elsewhere = "the cache on another disk ('dvc cache dir --local FOLDER')"
        outputs = [need.path for need in demand.needs if need.purpose in (Purpose.STORE, Purpose.MODEL)]
        if outputs and (cache := find_cache(outputs[0].parent)) and cache.types[0] != "hardlink":
            elsewhere = f"links in place of DVC's copy ('dvc config cache.type hardlink,symlink') or {elsewhere}"
    elif Purpose.WORK in purposes:
        elsewhere = "another folder for work in progress (scratch in machine.yaml)"
    else:
        elsewhere = "the project on another disk"
    old = f"stores, models and raw files that are not needed removed from {demand.filesystem.mount}"
    if any(project_of(need.path) for need in demand.needs):
        old = f"old versions removed, if the cache lies on {demand.filesystem.mount}: {REMOVE_OLD}"
    return [less, elsewhere, old]
