"""Compare expected writes, summed by filesystem, with the free space."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

from outofcore.settings.sizes import format_bytes
from outofcore.space.filesystems import Filesystem, filesystem_of, folder_bytes
from outofcore.space.links import Commit

# Upper bound of a run's curves, tables and pictures: curves have a few hundred rows, however long the run.
LOG_BYTES = 2**20


class Purpose(StrEnum):
    """Why bytes are written."""

    STORE = "store"
    WORK = "work folder"
    DVC_COPY = "DVC's copy"
    CHECKOUT = "checkout for an experiment"
    CHECKPOINTS = "checkpoints"
    MODEL = "model"
    MODEL_COPY = "DVC's copy of the model"
    LOGS = "logs and figures"


@dataclass(frozen=True)
class Need:
    """Bytes to be written under a path, without margin; the path may not exist yet."""

    path: Path
    purpose: Purpose
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What is required of one filesystem."""

    filesystem: Filesystem
    needs: tuple[Need, ...]
    margin: int  # bytes added for forecast errors
    reserve: int  # bytes that stay free
    free: int  # bytes free now

    @property
    def bytes(self) -> int:
        """Sum of the needs, without margin."""
        return sum(need.bytes for need in self.needs)

    @property
    def asked(self) -> int:
        """Bytes that must be free: needs, margin and reserve."""
        return self.bytes + self.margin + self.reserve

    @property
    def fits(self) -> bool:
        """Whether enough is free; always true without needs."""
        return self.bytes == 0 or self.asked <= self.free

    @property
    def purposes(self) -> dict[str, int]:
        """Sums of the needs by purpose."""
        sums: dict[str, int] = {}
        for need in self.needs:
            sums[need.purpose] = sums.get(need.purpose, 0) + need.bytes
        return sums

    def __str__(self) -> str:
        parts = [f"{purpose} {format_bytes(size)}" for purpose, size in self.purposes.items()]
        parts += [f"margin {format_bytes(self.margin)}", f"reserve {format_bytes(self.reserve)}"]
        return (
            f"{self.filesystem} needs {format_bytes(self.asked)} ({', '.join(parts)}), "
            f"{format_bytes(self.free)} are free"
        )


def demands(needs: Iterable[Need], *, margin: float, reserve: int) -> tuple[Demand, ...]:
    """Sum simultaneous needs by filesystem, with a margin, a share, and a reserve in bytes of each."""
    grouped: dict[Filesystem, list[Need]] = {}
    for need in needs:
        grouped.setdefault(filesystem_of(need.path), []).append(need)
    return tuple(
        Demand(
            filesystem=filesystem,
            needs=tuple(group),
            margin=margin_of(sum(need.bytes for need in group), margin),
            reserve=kept_free(filesystem, reserve),
            free=filesystem.free(),
        )
        for filesystem, group in grouped.items()
    )


def margin_of(size: int, margin: float) -> int:
    """The margin of a size in whole bytes, rounded up; exact for any size."""
    return math.ceil(size * Fraction(str(margin)))


def kept_free(filesystem: Filesystem, reserve: int) -> int:
    """The reserve of a filesystem: as set, but at most a twentieth of its size."""
    return min(reserve, filesystem.total() // 20)


def store_needs(
    target: Path, size: int, commit: Commit | None, work: Path | None = None, replaced: int = 0
) -> tuple[Need, ...]:
    """Writes of a conversion.

    ``commit`` is DVC's handling of the store, None without DVC. The store grows in ``work``, by default next to
    ``target`` with suffix ``.work``; from there it is renamed, from another filesystem copied. What a stopped
    conversion left in it or on the way to ``target`` is reused or removed. ``replaced`` bytes of an earlier store are
    freed before the first write.
    """
    work = work or target.with_name(f"{target.name}.work")
    left = max(0, size - folder_bytes(work))
    if work.name != f"{target.name}.work":
        replaced += folder_bytes(target.with_name(f"{target.name}.work"))
    if filesystem_of(work) == filesystem_of(target):
        needs = [Need(target, Purpose.STORE, max(0, left - replaced))]
    else:
        needs = [Need(work, Purpose.WORK, left), Need(target, Purpose.STORE, max(0, size - replaced))]
    if commit is not None and commit.copies_made:
        needs.append(Need(commit.cache.objects, Purpose.DVC_COPY, size))
    return tuple(needs)


def experiment_needs(size: int, commit: Commit, outputs: int, jobs: int) -> tuple[Need, ...]:
    """Writes of parallel experiments, each in its own workspace.

    ``size`` are output bytes of one experiment; ``commit`` was tried in the folder of the workspaces; ``outputs`` are
    bytes of all outputs in ``dvc.lock``, which each workspace checks out first; ``jobs`` run at a time.
    """
    place = commit.cache.experiments
    needs = store_needs(place, size, commit)
    if commit.copies_checked_out:
        needs = (*needs, Need(place, Purpose.CHECKOUT, outputs))
    return needs * jobs


def training_needs(model: Path, logs: Path, weights: int, states: int, commit: Commit | None) -> tuple[Need, ...]:
    """Writes of training: a checkpoint in addition to the one it replaces, logs, the model, and DVC's copy.

    Checkpoints are next to ``model`` in a folder with suffix ``.partial``; a stopped run's checkpoint there is the one
    replaced. ``weights`` and ``states`` (of the optimizer) are bytes; ``commit`` is None without DVC.
    """
    checkpoint = weights + states
    left = folder_bytes(model.with_name(f"{model.name}.partial"))
    needs = [
        Need(model.parent, Purpose.CHECKPOINTS, 2 * checkpoint - min(checkpoint, left)),
        Need(model, Purpose.MODEL, weights),
        Need(logs, Purpose.LOGS, LOG_BYTES),
    ]
    if commit is not None and commit.copies_made:
        needs.append(Need(commit.cache.objects, Purpose.MODEL_COPY, weights))
    return tuple(needs)
