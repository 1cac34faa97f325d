"""An epoch as a stream of tasks: chunks are read for the next pool while the batches of this one are made.

The reading of the next pool is dealt out over the batches of the present one, so that neither comes in a lump.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from outofcore.loading.batch import Batch, BatchMaker
from outofcore.loading.gather import Room
from outofcore.loading.pipeline import Latch, Task
from outofcore.loading.residency.base import Residency
from outofcore.loading.sampling.base import EpochPlan, touched

Ints = npt.NDArray[np.int64]
Last = Literal["keep", "drop", "pad"]

# Batches of a pool that are under way before the next pool asks for room: by then the pool before has given its own up.
_HEAD_START = 3


@dataclass(frozen=True)
class Made:
    """A batch that is ready.

    Attributes
    ----------
    batch
        Its tensors.
    count
        Its samples on this rank.
    start, stop
        Positions of its first sample and after its last one, over all ranks; inside the epoch.
    """

    batch: Batch
    count: int
    start: int
    stop: int


@dataclass(frozen=True)
class Share:
    """Which rank of how many."""

    rank: int
    world: int

    def count(self, start: int, stop: int) -> int:
        """How many of the positions ``start`` to ``stop`` are this rank's."""
        return self._before(stop) - self._before(start)

    def _before(self, position: int) -> int:
        return (position - self.rank + self.world - 1) // self.world


def spans(start: int, positions: int, size: int, last: Last, world: int) -> Iterator[tuple[int, int]]:
    """Positions from and to of each global batch.

    With ``"keep"``, a remainder too small to give each rank a sample joins the batch before it. With ``"pad"`` the last
    batch ends beyond the epoch.
    """
    while start < positions:
        stop = start + size
        left = positions - stop
        if last == "keep":
            stop = positions if left < world else stop
        elif last == "drop" and left < 0:
            return
        yield start, stop
        start = stop


def batches(start: int, positions: int, size: int, last: Last, world: int) -> int:
    """Number of :func:`spans`."""
    left = max(positions - start, 0)
    if last == "drop":
        return left // size
    if last == "keep" and left > size and left % size < world:
        return left // size
    return -(-left // size)


class _Pool:
    """A pool whose chunks are being read or gathered from."""

    def __init__(
        self, plan: EpochPlan, number: int, residency: Residency, share: Share, before: _Pool | None = None
    ) -> None:
        self.number = number
        self._before = before  # a chunk that both need is read by the work of the first
        self.start, self.stop = plan.pool_start(number), plan.pool_start(number + 1)
        self.first = plan.first_rows(number, share.rank, share.world)
        self.is_last = number + 1 == plan.pools
        self._share = share
        self._residency = residency
        self._chunks = touched(self.first, residency.length, residency.chunk_rows, residency.chunks)
        work = residency.bring(self._chunks)
        self._ready = Latch(len(work))
        self.tasks: list[Task[Made]] = [Task(partial(self._run, each), delivers=False) for each in work]
        self._users = 1
        self._lock = threading.Lock()

    def rows(self, start: int, stop: int) -> Ints:
        """First rows of this rank's samples from ``start`` to ``stop``; beyond the epoch, the pool's own again."""
        begin = self._share.count(self.start, start)
        end = self._share.count(self.start, stop)
        if end <= len(self.first):
            return self.first[begin:end]
        size = self.stop - self.start
        cycle = (size - size % self._share.world) // self._share.world
        places = np.arange(begin, end)
        return self.first[np.where(places < len(self.first), places, places % cycle)]

    def hold(self) -> None:
        """Say that one more task gathers from the pool."""
        with self._lock:
            self._users += 1

    def let_go(self) -> None:
        """Say that one less does."""
        with self._lock:
            self._users -= 1
            unused = self._users == 0
        if unused:
            self._residency.release(self._chunks)

    def gather(self, first: Ints, room: Room, at: int) -> None:
        """Copy samples to their places in a batch, as soon as the pool is read."""
        try:
            self.wait()
            self._residency.gather(first, room, at)
        finally:
            self.let_go()

    def wait(self) -> None:
        """Wait until the chunks are read, raising what went wrong."""
        before = self._before
        if before is not None:
            before.wait()
            self._before = None
        self._ready.wait()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised by every batch that needs the pool
            self._ready.done(error)
        else:
            self._ready.done()


class _Pieces:
    """A batch that lies in several pools."""

    def __init__(self, maker: BatchMaker, count: int, start: int, stop: int) -> None:
        self._maker = maker
        self._count = count
        self._start = start
        self._stop = stop
        self._room: Room | None = None
        self._before: list[Latch] = []
        self._lock = threading.Lock()

    def piece(self, pool: _Pool, first: Ints, at: int) -> Task[Made]:
        """Gathers what lies in one pool, not the last."""
        latch = Latch(1)
        self._before.append(latch)
        return Task(partial(self._gather, pool, first, at, latch), delivers=False)

    def finish(self, pool: _Pool, first: Ints, at: int) -> Task[Made]:
        """Gathers the rest and makes the batch."""
        return Task(partial(self._finish, pool, first, at), delivers=True)

    def _enter(self) -> Room:
        with self._lock:
            if self._room is None:
                self._room = self._maker.begin(self._count)
            return self._room

    def _gather(self, pool: _Pool, first: Ints, at: int, latch: Latch) -> None:
        try:
            pool.gather(first, self._enter(), at)
        except BaseException as error:  # noqa: BLE001 - raised by the task that finishes the batch
            latch.done(error)
        else:
            latch.done()

    def _finish(self, pool: _Pool, first: Ints, at: int) -> Made:
        room = self._enter()
        pool.gather(first, room, at)
        for latch in self._before:
            latch.wait()
        return Made(self._maker.finish(room, self._count, self._start), self._count, self._start, self._stop)


def schedule(
    plan: EpochPlan,
    residency: Residency,
    maker: BatchMaker,
    share: Share,
    start: int,
    size: int,
    last: Last,
) -> Iterator[Task[Made]]:
    """The tasks of an epoch from position ``start`` on; batches of ``size`` over all ranks."""
    if not batches(start, plan.positions, size, last, share.world):
        return
    pool = _Pool(plan, plan.pool_of(start), residency, share)
    yield from pool.tasks
    coming: _Pool | None = None
    tasks: list[Task[Made]] = []
    made = 0
    for begin, end in spans(start, plan.positions, size, last, share.world):
        pieces = _Pieces(maker, share.count(begin, end), begin, min(end, plan.positions))
        at = 0
        while True:
            ends_here = end <= pool.stop or pool.is_last
            first = pool.rows(max(begin, pool.start), end if ends_here else pool.stop)
            pool.hold()
            if ends_here:
                yield pieces.finish(pool, first, at)
                made += 1
                break
            yield pieces.piece(pool, first, at)
            at += len(first)
            pool.let_go()
            pool = coming or _Pool(plan, pool.number + 1, residency, share, pool)
            yield from tasks if coming else pool.tasks
            coming, made = None, 0
        left = max(1, (pool.stop - end) // size)
        if coming is None and not pool.is_last and (made >= _HEAD_START or left == 1):
            coming = _Pool(plan, pool.number + 1, residency, share, pool)
            tasks = coming.tasks
        if coming:
            due = -(-len(tasks) // left)
            yield from tasks[:due]
            tasks = tasks[due:]
    pool.let_go()
