"""An epoch of one split: each pool is read while batches are made of the one before.

Threads do the work, so that the consumer's only waits for the next group of batches. One prepares pool after pool: it
waits until the batches of the last but one are made, computes the order of the samples, and lets others decode the
chunks behind those of the last one, so that neither a disk nor a thread waits between two pools. A third kind makes
groups of batches, each as soon as its pools are read. Every kind begins its tasks in the order in which they were
submitted, and a task only waits for tasks that were submitted before it: no deadlock is possible, even with one thread
each.

A Ctrl-C can arrive in the consumer's thread at any call. So nothing depends on what that thread does after it has
submitted a task, and an interrupted close can be completed by another call.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
import torch

from outofcore.domains.task import Batch
from outofcore.loading.gather import BatchBuffer
from outofcore.loading.residency import Residency, ResidencyPlan, Work
from outofcore.loading.sequences import with_columns
from outofcore.loading.split import Split
from outofcore.loading.workers import Job, Workers
from outofcore.ndarrays import Ints
from outofcore.order.batching import Batching, Span
from outofcore.order.permutation import key, random_words
from outofcore.order.sampling import Pool, Sampler
from outofcore.system.device import DeviceStream, split_batches
from outofcore.system.recycling import Recyclers

_AUGMENT = 32  # purpose of a key; those of the order and the samplers are lower numbers


@dataclass(frozen=True)
class Delivery:
    """A batch that is ready."""

    batch: Batch
    count: int  # samples on this rank
    bytes: int  # of its tensors
    start: int  # position of its first sample, over all ranks
    stop: int  # position after its last sample, inside the epoch
    marked: Any  # the consumer's stream for which its tensors are marked, on a device with streams


Group = list[Delivery]
"""Consecutive batches made at once: making a small batch takes less time than handing it over."""


@dataclass(eq=False)
class SplitReader:
    """Draws the samples of a split, and holds their rows in this process."""

    split: Split
    sampler: Sampler
    seed: int
    plan: ResidencyPlan
    stream: DeviceStream
    recyclers: Recyclers
    _residency: Residency | None = None
    _process: int = -1
    _bytes_before: int = 0

    @property
    def bytes_read(self) -> int:
        """Bytes read from the store since the reader was made."""
        return self._bytes_before + (self._residency.bytes_read if self._residency is not None else 0)

    def describe(self) -> dict[str, Any]:
        """What determines the order, apart from store and seed."""
        return self.sampler.describe() | ({"where": self.split.selects} if self.split.selects else {})

    def first_rows(self, number: int, start: int, batching: Batching) -> Iterator[tuple[int, Ints]]:
        """Start and first rows of the samples of each pool of an epoch, over all ranks, from that of ``start`` on.

        Nothing is read but what the sampler reads. The last pool has also the samples that fill the last batch.
        """
        end, phase = batching.end(0, self.sampler.positions), self.split.windows.phase_of(self.seed, number)
        for pool in needed_pools(self.sampler, number, start, end):
            samples = np.empty(pool_end(self.sampler, pool, end) - pool.start, np.int64)
            for rank in range(batching.world):
                of_rank = replace(batching, rank=rank)
                samples[of_rank.first_of_rank(pool.start) - pool.start :: batching.world] = samples_of(
                    self.sampler, pool, of_rank, end
                )
            yield pool.start, self.split.windows.first_rows(samples, phase)

    def settle(self) -> None:
        """Free what is not kept for the next epoch, once no thread is working."""
        if self._residency is not None and self._process == os.getpid():
            self._residency.settle()

    def close(self) -> None:
        """Free all memory."""
        self._bytes_before, self._residency = self.bytes_read, None

    def open(self) -> Residency:
        """The residency of this process: after a fork another one, as locks that were held stay locked."""
        if self._residency is None or self._process != os.getpid():
            residency = self.plan.open(self.split, self.recyclers)
            self._bytes_before, self._process, self._residency = self.bytes_read, os.getpid(), residency
        return self._residency


def needed_pools(sampler: Sampler, number: int, start: int, end: int) -> Iterator[Pool]:
    """Pools of an epoch from that of position ``start`` on, if batches are made of any of their samples."""
    return takewhile(lambda pool: pool.start < end, sampler.pools(number, start))


def pool_end(sampler: Sampler, pool: Pool, end: int) -> int:
    """Position after the last sample of a pool that is in a batch; the last pool also fills a last batch."""
    return end if pool.stop == sampler.positions else min(end, pool.stop)


def samples_of(sampler: Sampler, pool: Pool, batching: Batching, end: int) -> Ints:
    """Sample numbers of a rank in a pool, up to ``end``; in the last one, also those that fill the last batch."""
    dealt = math.gcd(batching.world, sampler.lanes)  # ranks that have no lane in common
    samples = pool.draw(batching.rank % dealt, dealt)
    end = pool_end(sampler, pool, end)
    if end == pool.stop and dealt == batching.world:
        return samples
    places = np.arange(batching.first_of_rank(pool.start), end, batching.world) - pool.start
    size = pool.stop - pool.start
    again = size // dealt * dealt  # so that a rank needs no other lanes for them
    return np.asarray(samples[np.where(places < size, places, places % again) // dealt])


class _LoadedPool:
    """A pool of an epoch, and the tasks that take samples from it."""

    def __init__(self, pool: Pool) -> None:
        self.drawn = pool
        self.start, self.stop = pool.start, pool.stop
        self.first = self.chunks = np.empty(0, np.int64)  # first rows of this rank's samples; chunks that hold them
        self.parts = list[Job[None]]()  # tasks that were submitted to decode its chunks
        self.prepared: Job[list[Job[None]]]  # gives these, and those of the pool before, which may share chunks with it
        self.tasks = 0  # that were submitted
        self.done = threading.Semaphore(0)  # released by each task

    def read(self) -> None:
        """Wait until its chunks are decoded: all of them, before an error of one lets others have their slots."""
        parts = self.prepared.result()
        for part in parts:
            part.wait()
        for part in parts:
            part.result()


@dataclass
class _Gathered:
    """Samples of a group of batches."""

    buffer: BatchBuffer
    first: Ints  # their first rows
    count: int = 0  # of those that are there already


class SplitEpoch:
    """One epoch of a split on one rank."""

    def __init__(self, reader: SplitReader, number: int, batching: Batching, workers: Workers) -> None:
        self._split, self._stream, self._sampler = reader.split, reader.stream, reader.sampler
        self._residency, self._number = reader.open(), number
        self._batching, self._workers = batching, workers
        self._end = self._positions = reader.sampler.positions
        self._phase = reader.split.windows.phase_of(reader.seed, number)
        self._key = key(reader.seed, number, _AUGMENT, reader.split.place or 0)

    def groups(self, start: int, group_batches: int) -> Iterator[Job[Group]]:
        """Groups of up to ``group_batches`` batches that begin in one pool, after ``start`` samples over all ranks.

        Each is submitted when the iterator comes to it.
        """
        spans = self._batching.spans(start, self._positions)
        self._end = self._batching.end(start, self._positions)
        span = next(spans, None)
        if span is None:
            return
        pools = self._pools(start)
        pool = next(pools)
        while span is not None:
            group = [span]
            while (span := next(spans, None)) and len(group) < group_batches and span[0] < pool.stop:
                group.append(span)
            begin, end = group[0][0], group[-1][1]
            size = self._batching.samples_of_rank(begin, end)
            before: Job[_Gathered] | None = None
            while min(end, self._positions) > pool.stop:  # the rest is in other pools
                before = self._submit(pool, self._gather, pool, begin, pool.stop, size, before)
                begin, pool = pool.stop, next(pools)
            yield self._submit(pool, self._make, pool, begin, end, size, before, group)

    def _pools(self, start: int) -> Iterator[_LoadedPool]:
        """Pools from that of a position on; the next one is read from the moment at which this one is taken up."""
        used: _LoadedPool | None = None
        before: _LoadedPool | None = None
        for drawn in needed_pools(self._sampler, self._number, start, self._end):
            pool = _LoadedPool(drawn)
            pool.prepared = self._workers.pools.submit(self._prepare, pool, before, used)
            if before is not None:
                yield before
            used, before = before, pool
        if before is not None:
            yield before

    def _prepare(self, pool: _LoadedPool, before: _LoadedPool | None, used: _LoadedPool | None) -> list[Job[None]]:
        """Draw a pool, and submit what decodes its chunks, behind those of the pool before; returns both."""
        if used is not None:
            for _ in range(used.tasks):
                used.done.acquire()
            self._residency.release(used.chunks)
            used.first = used.chunks = np.empty(0, np.int64)
        self._go_on()
        samples = samples_of(self._sampler, pool.drawn, self._batching, self._end)
        pool.first = self._split.windows.first_rows(samples, self._phase)
        pool.chunks = self._residency.touched(pool.first)
        pool.parts = [self._workers.chunks.submit(self._decode, work) for work in self._residency.bring(pool.chunks)]
        return pool.parts + (before.parts if before is not None else [])

    def _decode(self, work: Work) -> None:
        self._go_on()
        work()

    def _go_on(self) -> None:
        """Raise CancelledError if the iteration has ended."""
        if self._workers.closed:
            raise CancelledError

    def _submit(self, pool: _LoadedPool, work: Callable[..., Any], *arguments: Any) -> Job[Any]:
        pool.tasks += 1
        return self._workers.batches.submit(work, *arguments)

    def _gather(self, pool: _LoadedPool, begin: int, end: int, size: int, before: Job[_Gathered] | None) -> _Gathered:
        """Copy the samples at these positions of a pool, behind those that were copied before."""
        try:
            pool.read()
            self._go_on()
            gathered = before.result() if before is not None else None
            if gathered is None:
                gathered = _Gathered(self._residency.allocate(size), np.empty(size, np.int64))
            low, high = (self._batching.samples_of_rank(pool.start, edge) for edge in (begin, end))
            first = pool.first[low:high]
            self._residency.gather(first, gathered.buffer, gathered.count)
            gathered.first[gathered.count : gathered.count + len(first)] = first
            gathered.count += len(first)
            return gathered
        finally:
            pool.done.release()

    def _make(
        self, pool: _LoadedPool, begin: int, end: int, size: int, before: Job[_Gathered] | None, spans: list[Span]
    ) -> Group:
        """Gather the last samples of a group, and make its batches."""
        gathered = self._gather(pool, begin, end, size, before)
        counts = [self._batching.samples_of_rank(*span) for span in spans]
        draws = random_words(self._batching.first_of_rank(spans[0][0]), self._batching.world, size, self._key)
        with self._stream.queue():
            columns = self._split.columns
            tensors = self._split.reading(gathered.buffer.arrays | columns.of_rows(gathered.first), draws)
            tensors = with_columns(tensors, columns.of(gathered.first))
            if self._split.place is not None:
                where = next(iter(tensors.values())).device
                tensors = {**tensors, "part": torch.full((size,), self._split.place, device=where)}
            if self._split.transform is None:
                batches = split_batches(self._stream.send(tensors), counts)
            else:
                pairs = zip(split_batches(tensors, counts), counts, strict=True)
                batches = [self._stream.send(self._split.transform(*pair)) for pair in pairs]
            marked = self._stream.finish(batches)
        return [
            Delivery(
                batch, count, sum(tensor.nbytes for tensor in batch.values()), start, min(stop, self._positions), marked
            )
            for batch, count, (start, stop) in zip(batches, counts, spans, strict=True)
        ]
