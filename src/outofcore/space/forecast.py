"""What will be written where, summed by filesystem, against what is free there."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

from outofcore.sizes import format_bytes
from outofcore.space.filesystems import Filesystem, filesystem_of, folder_bytes
from outofcore.space.links import Commit

# What a run's curves, tables and pictures are sure to stay below: a curve has a few hundred rows, however long the run.
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
    """Bytes that will be written under a path.

    Attributes
    ----------
    path
        A file or folder, existing or not.
    purpose
        Why.
    bytes
        How many, without margin.
    """

    path: Path
    purpose: Purpose
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What one filesystem is asked for.

    Attributes
    ----------
    filesystem
        The filesystem.
    needs
        All that will be written there.
    margin
        Bytes added because a forecast may be wrong.
    reserve
        Bytes that stay free.
    free
        Bytes that are free now.
    """

    filesystem: Filesystem
    needs: tuple[Need, ...]
    margin: int
    reserve: int
    free: int

    @property
    def bytes(self) -> int:
        """What the needs sum to, without margin."""
        return sum(need.bytes for need in self.needs)

    @property
    def asked(self) -> int:
        """Bytes that must be free: needs, margin and reserve."""
        return self.bytes + self.margin + self.reserve

    @property
    def fits(self) -> bool:
        """Whether they are. Where nothing is needed, nothing is asked."""
        return self.bytes == 0 or self.asked <= self.free

    def __str__(self) -> str:
        sums: dict[str, int] = {}
        for need in self.needs:
            sums[need.purpose] = sums.get(need.purpose, 0) + need.bytes
        parts = [f"{purpose} {format_bytes(size)}" for purpose, size in sums.items()]
        parts += [f"margin {format_bytes(self.margin)}", f"reserve {format_bytes(self.reserve)}"]
        return (
            f"{self.filesystem} needs {format_bytes(self.asked)} ({', '.join(parts)}), "
            f"free are {format_bytes(self.free)}"
        )


def demands(needs: Iterable[Need], *, margin: float, reserve: int) -> tuple[Demand, ...]:
    """Sum needs by filesystem, in the order in which the filesystems are first named.

    Parameters
    ----------
    needs
        What will be written, all at the same time.
    margin
        Share added to the needs.
    reserve
        Bytes that stay free on each; see :func:`kept_free`.
    """
    grouped: dict[Filesystem, list[Need]] = {}
    for need in needs:
        grouped.setdefault(filesystem_of(need.path), []).append(need)
    return tuple(
        Demand(
            filesystem=filesystem,
            needs=tuple(each),
            margin=margin_of(sum(need.bytes for need in each), margin),
            reserve=kept_free(filesystem, reserve),
            free=filesystem.free(),
        )
        for filesystem, each in grouped.items()
    )


def margin_of(size: int, margin: float) -> int:
    """The margin of a size in whole bytes, rounded up; exact for any size."""
    return math.ceil(size * Fraction(str(margin)))


def kept_free(filesystem: Filesystem, reserve: int) -> int:
    """The reserve of a filesystem: what is set, but never more than a twentieth of it."""
    return min(reserve, filesystem.total() // 20)


def store_needs(
    target: Path, size: int, commit: Commit | None, work: Path | None = None, replaced: int = 0
) -> tuple[Need, ...]:
    """What converting a store writes.

    Parameters
    ----------
    target
        Where the store will stand.
    size
        Estimated bytes.
    commit
        What DVC does with it afterwards; None outside of DVC.
    work
        Folder in which it grows; None for one beside the store, with ``.work`` behind its name. There it becomes the
        store by one rename; from another filesystem it is copied. What a stopped conversion has left in it will be
        used again or make way.
    replaced
        Bytes of an earlier store that make way before the first byte is written.
    """
    work = work or target.with_name(f"{target.name}.work")
    left = max(0, size - folder_bytes(work))
    if filesystem_of(work) == filesystem_of(target):
        needs = [Need(target, Purpose.STORE, max(0, left - replaced))]
    else:
        needs = [Need(work, Purpose.WORK, left), Need(target, Purpose.STORE, max(0, size - replaced))]
    if commit is not None and commit.copies_made:
        needs.append(Need(commit.cache.objects, Purpose.DVC_COPY, size))
    return tuple(needs)


def experiment_needs(size: int, commit: Commit, outputs: int, jobs: int) -> tuple[Need, ...]:
    """What parallel experiments write, each in a workspace of its own.

    Parameters
    ----------
    size
        Bytes that one of them writes as outputs.
    commit
        What DVC does with an output, tried in the folder of those workspaces.
    outputs
        Bytes of all outputs in ``dvc.lock``, which every such workspace checks out first.
    jobs
        Experiments at a time.
    """
    place = commit.cache.experiments
    needs = store_needs(place, size, commit)
    if commit.copies_checked_out:
        needs = (*needs, Need(place, Purpose.CHECKOUT, outputs))
    return needs * jobs


def training_needs(model: Path, logs: Path, weights: int, states: int, commit: Commit | None) -> tuple[Need, ...]:
    """What training writes: a checkpoint beside the one that it replaces, logs, the model, and DVC's copy of it.

    Parameters
    ----------
    model
        Folder of the model; checkpoints stand beside it, in a folder with ``.partial`` behind its name. The checkpoint
        that a stopped run has left there is the one that will be replaced.
    logs
        Folder of the curves and pictures.
    weights
        Bytes of the model's weights.
    states
        Bytes of the optimizer's states.
    commit
        What DVC does with the model afterwards; None outside of DVC.
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
