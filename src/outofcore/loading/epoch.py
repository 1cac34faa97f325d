"""An epoch of one split as a stream of tasks: chunks of the next pool are read while batches of this one are made.

Reading the next pool is spread over the batches of the current one, for an even load.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outofcore.domains.reading import DeviceReading, Draws
from outofcore.loading.batching import Batching, Span
from outofcore.loading.columns import with_columns
from outofcore.loading.device import Batch, DeviceStream, split_batches
from outofcore.loading.gather import Room
from outofcore.loading.memory import Choice
from outofcore.loading.order import Epoch, Sampler
from outofcore.loading.permutation import key, random_words
from outofcore.loading.pipeline import Latch, Step, Task, Until
from outofcore.loading.residency import Residency
from outofcore.loading.split import Split

Ints = npt.NDArray[np.int64]
FirstRows = Callable[[Ints], Ints]  # from samples to their first rows

# Groups of a pool that are under way before the next pool asks for room: by then the pool before has released its own.
_HEAD_START = 3
_AUGMENT = 32  # purpose of a key; those of the order and the samplers are lower numbers


class SplitReader:
    """Draws the samples of a split, and holds their rows in this process."""

    def __init__(
        self,
        split: Split,
        sampler: Sampler,
        seed: int,
        choice: Choice,
        stream: DeviceStream,
        part: int | None,
    ) -> None:
        self.split = split
        self.sampler = sampler
        self.choice = choice
        self._seed = seed
        self._stream = stream
        self._part = part
        self._residency: Residency | None = None
        self._process = -1
        self._bytes_before = 0

    @property
    def bytes_read(self) -> int:
        """Bytes read from the store since the reader was made."""
        return self._bytes_before + (self._residency.bytes_read if self._residency is not None else 0)

    def steps(self, number: int, start: int, batching: Batching, together: int) -> Iterator[Step[Group]]:
        """The tasks of an epoch after ``start`` samples over all ranks; each delivers up to ``together`` batches."""
        split, positions = self.split, self.sampler.positions
        ahead = batching.spans(start, positions)
        span = next(ahead, None)
        if span is None:
            return
        residency = self._open()
        words = key(self._seed, number, _AUGMENT, self._part or 0)
        maker = BatchMaker(residency, split, self._stream, words, self._part)
        first_rows = partial(split.windows.first_rows, phase=split.windows.phase_of(self._seed, number))
        pools = _Pools(self.sampler.epoch(number), first_rows, residency, batching, start)
        yield from pools.begin()
        while span is not None:
            spans = [span]
            while (span := next(ahead, None)) and len(spans) < together and span[0] < pools.current.stop:
                spans.append(span)
            begin, end = spans[0][0], spans[-1][1]
            group = _GroupMaker(maker, batching, spans, positions)
            at = 0
            while end > pools.current.stop and not pools.current.is_last:
                pool = pools.current
                first = pool.rows(max(begin, pool.start), pool.stop)
                pool.hold()
                yield group.piece(pool, first, at)
                at += len(first)
                yield from pools.proceed()
            pool = pools.current
            pool.hold()
            yield group.finish(pool, pool.rows(max(begin, pool.start), end), at)
            yield from pools.read_ahead((pool.stop - end) // (batching.size * together))
        pools.current.release()

    def settle(self) -> None:
        """Free what is not kept for the next epoch, once no thread is working."""
        if self._residency is not None and self._process == os.getpid():
            self._residency.settle()

    def close(self) -> None:
        """Free all memory."""
        self._bytes_before, self._residency = self.bytes_read, None

    def _open(self) -> Residency:
        """The residency of this process: after a fork another one, as locks that were held stay locked."""
        if self._residency is None or self._process != os.getpid():
            residency = self.choice.open(self.split, self._stream)
            self._bytes_before, self._process, self._residency = self.bytes_read, os.getpid(), residency
        return self._residency


@dataclass(frozen=True)
class Delivery:
    """A batch that is ready."""

    batch: Batch
    count: int  # samples on this rank
    bytes: int  # of its tensors
    start: int  # position of its first sample, over all ranks
    stop: int  # position after its last sample, inside the epoch
    event: Any  # that the consumer's stream waits for, on a device with streams


Group = list[Delivery]
"""Consecutive batches made at once: making a small batch takes less time than handing it over."""


class _Pools:
    """The pools of an epoch; the next one is read ahead while batches are made of the current one."""

    def __init__(
        self, epoch: Epoch, first_rows: FirstRows, residency: Residency, batching: Batching, start: int
    ) -> None:
        self._epoch = epoch
        self._first_rows = first_rows
        self._residency = residency
        self._batching = batching
        self.current = _Pool(epoch, epoch.pool_of(start), first_rows, residency, batching)
        self._next: _Pool | None = None
        self._tasks: list[Task[Group]] = []
        self._groups = 0

    def begin(self) -> Iterator[Step[Group]]:
        """Read the first pool."""
        yield Until(self.current.has_room)
        yield from self.current.bring()

    def proceed(self) -> Iterator[Step[Group]]:
        """Continue with the next pool, and what is left to read of it."""
        self.current.release()
        if self._next is None:
            yield from self._begin_next()
        assert self._next is not None
        yield from self._tasks
        self.current, self._next, self._tasks, self._groups = self._next, None, [], 0

    def read_ahead(self, groups_left: int) -> Iterator[Step[Group]]:
        """Read a share of the next pool after each group, for an even load."""
        self._groups += 1
        if self._next is None and not self.current.is_last and (self._groups >= _HEAD_START or groups_left <= 1):
            yield from self._begin_next()
        due = -(-len(self._tasks) // max(1, groups_left))
        yield from self._tasks[:due]
        del self._tasks[:due]

    def _begin_next(self) -> Generator[Step[Group]]:
        number = self.current.number + 1
        pool = _Pool(self._epoch, number, self._first_rows, self._residency, self._batching, self.current)
        yield Until(pool.has_room)
        self._next, self._tasks = pool, pool.bring()


class _Pool:
    """A pool whose chunks are being read or gathered from."""

    def __init__(
        self,
        epoch: Epoch,
        number: int,
        first_rows: FirstRows,
        residency: Residency,
        batching: Batching,
        before: _Pool | None = None,
    ) -> None:
        self.number = number
        self._before = before  # a chunk needed by both is read by the work of the first
        self.start, self.stop = epoch.pool_start(number), epoch.pool_start(number + 1)
        self.first = first_rows(epoch.samples(number, batching.rank, batching.world))
        self.is_last = number + 1 == epoch.pools
        self._batching = batching
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
        return [Task(partial(self._ready.run, each), delivers=False) for each in work]

    def rows(self, start: int, stop: int) -> Ints:
        """First rows of this rank's samples from ``start`` to ``stop``; past the epoch, the pool's own again."""
        begin, end = self._batching.own(self.start, start), self._batching.own(self.start, stop)
        if end <= len(self.first):
            return self.first[begin:end]
        cycle = (self.stop - self.start) // self._batching.world
        places = np.arange(begin, end)
        return self.first[np.where(places < len(self.first), places, places % cycle)]

    def hold(self) -> None:
        """Register a task that gathers from the pool."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
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
            self.release()

    def wait(self) -> None:
        """Wait until the chunks are read, raising any error."""
        before = self._before
        if before is not None:
            before.wait()
            self._before = None
        self._ready.wait()


class _GroupMaker:
    """Makes a group of batches whose samples are in one or several pools."""

    def __init__(self, maker: BatchMaker, batching: Batching, spans: Sequence[Span], positions: int) -> None:
        self._maker = maker
        self._spans = [(begin, min(end, positions)) for begin, end in spans]
        self._counts = [batching.own(begin, end) for begin, end in spans]
        self._draws = batching.first_own(spans[0][0]), batching.world
        self._room: Room | None = None
        self._first = np.empty(sum(self._counts), np.int64)
        self._pieces: list[Latch] = []
        self._lock = threading.Lock()

    def piece(self, pool: _Pool, first: Ints, at: int) -> Task[Group]:
        """Gather the samples in one pool, not the last."""
        latch = Latch(1)
        self._pieces.append(latch)
        return Task(partial(latch.run, partial(self._gather, pool, first, at)), delivers=False)

    def finish(self, pool: _Pool, first: Ints, at: int) -> Task[Group]:
        """Gather the rest and make the batches."""
        return Task(partial(self._finish, pool, first, at), delivers=True)

    def _gather(self, pool: _Pool, first: Ints, at: int) -> None:
        with self._lock:
            if self._room is None:
                self._room = self._maker.room(len(self._first))
        self._first[at : at + len(first)] = first
        pool.gather(first, self._room, at)

    def _finish(self, pool: _Pool, first: Ints, at: int) -> Group:
        self._gather(pool, first, at)
        for latch in self._pieces:
            latch.wait()
        assert self._room is not None
        batches, event = self._maker.make(self._room, self._first, self._counts, *self._draws)
        return [
            Delivery(batch, count, sum(tensor.nbytes for tensor in batch.values()), begin, end, event)
            for batch, count, (begin, end) in zip(batches, self._counts, self._spans, strict=True)
        ]


class BatchMaker:
    """Makes batches of gathered rows, in several threads at once.

    ``key`` determines random choices, together with a sample's position. ``part`` is the part's place in the store if
    batches of several parts are mixed: a batch then contains it as ``part``, int64 (batch,).
    """

    def __init__(self, residency: Residency, split: Split, stream: DeviceStream, key: int, part: int | None) -> None:
        self._residency = residency
        self._reading = split.reading
        self._columns = split.columns
        self._stream = stream
        self._key = key
        self._part = part

    def room(self, count: int) -> Room:
        """Room for the rows of a group of batches."""
        return self._residency.allocate(count)

    def make(
        self, room: Room, first_rows: Ints, counts: Sequence[int], position: int, step: int
    ) -> tuple[list[Batch], Any]:
        """Batches of ``counts`` samples each, which are at positions ``position``, ``position + step``, ...

        With them comes the event that the consumer's stream waits for, if there is one.
        """
        draws = random_words(position, step, sum(counts), self._key)
        with self._stream.queue():
            tensors = self._tensors(room, draws)
            if self._columns is not None:
                tensors = with_columns(tensors, self._columns.of(first_rows))
            if self._part is not None:
                where = next(iter(tensors.values())).device
                tensors = {**tensors, "part": torch.full((len(draws),), self._part, device=where)}
            batches = split_batches(self._stream.send(tensors), counts)
            return batches, self._stream.finish()

    def _tensors(self, room: Room, draws: Draws) -> dict[str, torch.Tensor]:
        if self._residency.name != "device":
            return self._reading(room.arrays, draws)
        if isinstance(self._reading, DeviceReading):
            return self._reading.on_device(room.arrays, draws)
        return self._reading(self._to_host(room.arrays), draws)

    def _to_host(self, rows: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
        return {name: rows[name].cpu().numpy().view(array.dtype) for name, array in self._residency.fields.items()}
