"""An epoch as a stream of tasks: chunks of the next pool are read while batches of this one are made.

Reading the next pool is spread over the batches of the current one, for an even load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from outofcore.loading.batch import Batch, BatchMaker
from outofcore.loading.gather import Room
from outofcore.loading.order import Epoch
from outofcore.loading.pipeline import Latch, Step, Task, Until
from outofcore.loading.residency import Residency
from outofcore.loading.spans import Last, Share, Span, spans

Ints = npt.NDArray[np.int64]
FirstRows = Callable[[Ints], Ints]  # from samples to their first rows
# Groups of a pool that are under way before the next pool asks for room: by then the pool before has given its own up.
_HEAD_START = 3


@dataclass(frozen=True)
class Made:
    """A batch that is ready."""

    batch: Batch
    count: int  # samples on this rank
    bytes: int  # of its tensors
    start: int  # position of its first sample, over all ranks
    stop: int  # position after its last sample, inside the epoch


Group = list[Made]
"""Consecutive batches made at once: making a small batch takes less time than handing it over."""


class _Pool:
    """A pool whose chunks are being read or gathered from."""

    def __init__(
        self,
        epoch: Epoch,
        number: int,
        first_rows: FirstRows,
        residency: Residency,
        share: Share,
        before: _Pool | None = None,
    ) -> None:
        self.number = number
        self._before = before  # a chunk needed by both is read by the work of the first
        self.start, self.stop = epoch.pool_start(number), epoch.pool_start(number + 1)
        self.first = first_rows(epoch.samples(number, share.rank, share.world))
        self.is_last = number + 1 == epoch.pools
        self._share = share
        self._residency = residency
        self._chunks = residency.touched(self.first)
        self._ready = Latch(0)
        self._users = 1
        self._lock = threading.Lock()

    def has_room(self) -> bool:
        """Whether its chunks can be brought."""
        return self._residency.has_room(self._chunks)

    def bring(self) -> list[Task[Group]]:
        """Reserve room; the tasks read the chunks."""
        work = self._residency.bring(self._chunks)
        self._ready = Latch(len(work))
        return [Task(partial(self._run, each), delivers=False) for each in work]

    def rows(self, start: int, stop: int) -> Ints:
        """First rows of this rank's samples from ``start`` to ``stop``; past the epoch, the pool's own again."""
        begin = self._share.count(self.start, start)
        end = self._share.count(self.start, stop)
        if end <= len(self.first):
            return self.first[begin:end]
        size = self.stop - self.start
        cycle = (size - size % self._share.world) // self._share.world
        places = np.arange(begin, end)
        return self.first[np.where(places < len(self.first), places, places % cycle)]

    def hold(self) -> None:
        """Register a task that gathers from the pool."""
        with self._lock:
            self._users += 1

    def let_go(self) -> None:
        """Unregister a task that gathered from the pool."""
        with self._lock:
            self._users -= 1
            unused = self._users == 0
        if unused:
            self._residency.release(self._chunks)

    def gather(self, first: Ints, room: Room, at: int) -> None:
        """Copy samples to their places in a batch, once the pool is read."""
        try:
            self.wait()
            self._residency.gather(first, room, at)
        finally:
            self.let_go()

    def wait(self) -> None:
        """Wait until the chunks are read, raising any error."""
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


class _Making:
    """A group of batches whose samples are in one or several pools."""

    def __init__(self, maker: BatchMaker, share: Share, spans: Sequence[Span], positions: int) -> None:
        self._maker = maker
        self._spans = [(begin, min(end, positions)) for begin, end in spans]
        self._counts = [share.count(begin, end) for begin, end in spans]
        self._draws = share.first(spans[0][0]), share.world
        self._room: Room | None = None
        self._before: list[Latch] = []
        self._lock = threading.Lock()

    def piece(self, pool: _Pool, first: Ints, at: int) -> Task[Group]:
        """Gather the samples in one pool, not the last."""
        latch = Latch(1)
        self._before.append(latch)
        return Task(partial(self._gather, pool, first, at, latch), delivers=False)

    def finish(self, pool: _Pool, first: Ints, at: int) -> Task[Group]:
        """Gather the rest and make the batches."""
        return Task(partial(self._finish, pool, first, at), delivers=True)

    def _enter(self) -> Room:
        with self._lock:
            if self._room is None:
                self._room = self._maker.begin(sum(self._counts))
            return self._room

    def _gather(self, pool: _Pool, first: Ints, at: int, latch: Latch) -> None:
        try:
            pool.gather(first, self._enter(), at)
        except BaseException as error:  # noqa: BLE001 - raised by the task that finishes the group
            latch.done(error)
        else:
            latch.done()

    def _finish(self, pool: _Pool, first: Ints, at: int) -> Group:
        room = self._enter()
        pool.gather(first, room, at)
        for latch in self._before:
            latch.wait()
        batches = self._maker.finish(room, self._counts, *self._draws)
        return [
            Made(batch, count, sum(tensor.nbytes for tensor in batch.values()), begin, end)
            for batch, count, (begin, end) in zip(batches, self._counts, self._spans, strict=True)
        ]


class _Reading:
    """The pools of an epoch; the next one is read ahead while batches are made of the current one."""

    def __init__(self, epoch: Epoch, first_rows: FirstRows, residency: Residency, share: Share, start: int) -> None:
        self._epoch = epoch
        self._first_rows = first_rows
        self._residency = residency
        self._share = share
        self.pool = _Pool(epoch, epoch.pool_of(start), first_rows, residency, share)
        self._coming: _Pool | None = None
        self._tasks: list[Task[Group]] = []
        self._groups = 0

    def begin(self) -> Iterator[Step[Group]]:
        """Read the first pool."""
        yield Until(self.pool.has_room)
        yield from self.pool.bring()

    def proceed(self) -> Iterator[Step[Group]]:
        """Continue with the next pool, and what is left to read of it."""
        self.pool.let_go()
        if self._coming is None:
            yield from self._ask()
        assert self._coming is not None
        yield from self._tasks
        self.pool, self._coming, self._tasks, self._groups = self._coming, None, [], 0

    def read_ahead(self, groups_left: int) -> Iterator[Step[Group]]:
        """Read a share of the next pool after each group, for an even load."""
        self._groups += 1
        if self._coming is None and not self.pool.is_last and (self._groups >= _HEAD_START or groups_left <= 1):
            yield from self._ask()
        due = -(-len(self._tasks) // max(1, groups_left))
        yield from self._tasks[:due]
        del self._tasks[:due]

    def _ask(self) -> Generator[Step[Group]]:
        number = self.pool.number + 1
        coming = _Pool(self._epoch, number, self._first_rows, self._residency, self._share, self.pool)
        yield Until(coming.has_room)
        self._coming, self._tasks = coming, coming.bring()


def schedule(
    epoch: Epoch,
    first_rows: FirstRows,
    residency: Residency,
    maker: BatchMaker,
    share: Share,
    batching: tuple[int, Last, int],
    start: int,
) -> Iterator[Step[Group]]:
    """The steps of an epoch, after ``start`` samples that the consumer has received over all ranks."""
    size, last, together = batching
    positions = epoch.pool_start(epoch.pools)
    ahead = spans(start, positions, size, last, share.world)
    span = next(ahead, None)
    if span is None:
        return
    reading = _Reading(epoch, first_rows, residency, share, start)
    yield from reading.begin()
    while span is not None:
        group = [span]
        while (span := next(ahead, None)) and len(group) < together and span[0] < reading.pool.stop:
            group.append(span)
        begin, end = group[0][0], group[-1][1]
        making = _Making(maker, share, group, positions)
        at = 0
        while end > reading.pool.stop and not reading.pool.is_last:
            pool = reading.pool
            first = pool.rows(max(begin, pool.start), pool.stop)
            pool.hold()
            yield making.piece(pool, first, at)
            at += len(first)
            yield from reading.proceed()
        pool = reading.pool
        pool.hold()
        yield making.finish(pool, pool.rows(max(begin, pool.start), end), at)
        yield from reading.read_ahead((pool.stop - end) // (size * together))
    reading.pool.let_go()
