"""Batches of one or several splits: one epoch after another, exact, resumable on any number of ranks."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.reading import Reading
from outofcore.errors import StateError
from outofcore.loading.batch import Batch, BatchMaker
from outofcore.loading.permutation import key
from outofcore.loading.pipeline import Pipeline
from outofcore.loading.residency.base import Residency
from outofcore.loading.sampling.base import Sampler
from outofcore.loading.schedule import Group, schedule
from outofcore.loading.spans import Last, Share, batches, spans
from outofcore.loading.split import Split
from outofcore.loading.state import Identity
from outofcore.loading.transfer import Transfer
from outofcore.loading.turns import Turns, interleave, take_turns

Ints = npt.NDArray[np.int64]

_log = logging.getLogger("outofcore")

_AUGMENT = 32  # what a key is for; the order's and the samplers' purposes lie below


@dataclass
class Stats:
    """What a loader has done since it was made.

    Attributes
    ----------
    seconds_waited
        Time that the consumer waited for batches.
    bytes_read, bytes_delivered
        From the store, and to the consumer as tensors.
    batches, samples
        Delivered on this rank.
    """

    seconds_waited: float = 0.0
    bytes_read: int = 0
    bytes_delivered: int = 0
    batches: int = 0
    samples: int = 0


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The samples of a split, and how they are drawn, read and held.

    Attributes
    ----------
    split
        Where they are.
    sampler
        In which order they come.
    reading
        What they become.
    residency, reason
        Where their decoded rows lie, and why there.
    open
        Makes that residency.
    part
        With several streams, the place of its part in the store.
    """

    split: Split
    sampler: Sampler
    reading: Reading
    residency: str
    reason: str
    open: Callable[[], Residency]
    part: int | None


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How batches are made; nothing of it shows in them.

    Attributes
    ----------
    threads
        Workers beside the consumer.
    depth
        Groups of batches in flight, the consumer's own among them.
    together
        Batches of a group; 1 with several streams.
    transfer
        Brings batches to the consumer's device.
    """

    threads: int
    depth: int
    together: int
    transfer: Transfer


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How samples become batches.

    Attributes
    ----------
    size
        Samples of a global batch.
    share
        Which rank of how many.
    last
        What becomes of a last batch that is not full.
    turns
        With several streams, which gives the next batch.
    """

    size: int
    share: Share
    last: Last
    turns: Turns

    def count(self, sampler: Sampler, received: int = 0) -> int:
        """Batches of a stream after ``received`` samples."""
        return batches(received, sampler.positions, self.size, self.last, self.share.world)

    def sizes(self, sampler: Sampler) -> list[int]:
        """Samples of each batch of a stream, over all ranks; repeated ones do not count."""
        positions = sampler.positions
        return [
            min(stop, positions) - start for start, stop in spans(0, positions, self.size, self.last, self.share.world)
        ]


class Loader:
    """Iterates over the batches of an epoch; made by :func:`outofcore.loader`.

    Each iteration is an epoch: the first is ``epoch``, each further one the next after one that delivered a batch. One
    iteration is alive at a time; a second one ends the first.

    Attributes
    ----------
    streams
        What is read; several where parts are read together, each batch from one of them.
    batching, engine
        How.
    epoch
        The epoch of the present iteration, or of the next one if none has begun.
    stats
        What was done so far.
    notes
        What a person should know before the first batch, line by line; goes to the log then.
    """

    def __init__(
        self,
        streams: tuple[Stream, ...],
        batching: Batching,
        engine: Engine,
        identity: Identity,
        notes: tuple[str, ...],
    ) -> None:
        self.streams = streams
        self.batching = batching
        self.engine = engine
        self.notes = notes
        self.epoch = 0
        self.stats = Stats()
        self._identity = identity
        self._received = 0  # samples of this epoch, over all ranks
        self._begun = self._noted = False
        self._living: weakref.ref[Generator[Batch]] | None = None
        self._residencies: tuple[int, list[Residency]] | None = None
        self._read_before = 0

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return sum(self.batching.count(stream.sampler) for stream in self.streams)

    def __repr__(self) -> str:
        splits = ", ".join(f"{each.split.path} {each.residency}" for each in self.streams)
        return f"Loader({splits}: {self.samples:,} samples in {len(self):,} batches of {self.batching.size:,})"

    @property
    def samples(self) -> int:
        """Samples of an epoch, over all ranks."""
        return sum(stream.sampler.positions for stream in self.streams)

    def __iter__(self) -> Generator[Batch]:
        """The batches from where the consumer stands, or of the next epoch."""
        self._end_iteration()
        if self._begun:
            self.set_epoch(self.epoch + 1)
        if not self._noted:
            self._noted = True
            for note in self.notes:
                _log.info("%s", note)
        iteration = self._iterate()
        self._living = weakref.ref(iteration)
        return iteration

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration give this epoch, from its beginning."""
        self.epoch, self._received, self._begun = epoch, 0, False

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer stands; may be taken after any batch."""
        return self._identity.state(self.epoch, self._received)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on after the last batch that was received, on any number of ranks.

        Raises
        ------
        StateError
            If the state belongs to another store, split, seed or layout.
        """
        epoch, received = self._identity.read(state)
        starts, turns = self._stand(epoch, received)
        if not len(turns) and not self.batching.count(self.streams[0].sampler, starts[0]):
            epoch, received = epoch + 1, 0
        self.epoch, self._received, self._begun = epoch, received, False

    def close(self) -> None:
        """End the present iteration and give back all memory."""
        self._end_iteration()
        self._residencies = None

    def _end_iteration(self) -> None:
        living = self._living() if self._living else None
        if living is not None:
            living.close()
        self._living = None

    def _iterate(self) -> Generator[Batch]:
        pipeline, residencies, process = self._start()
        try:
            while True:
                if process != os.getpid():  # threads and held locks do not survive a fork
                    pipeline, residencies, process = self._start()
                waited = pipeline.seconds_waited
                group = next(pipeline, None)
                self.stats.seconds_waited += pipeline.seconds_waited - waited
                self.stats.bytes_read = self._read_before + sum(each.bytes_read for each in residencies)
                if group is None:
                    return
                for made in group:
                    self.stats.batches += 1
                    self.stats.samples += made.count
                    self.stats.bytes_delivered += made.bytes
                    self._received += made.stop - made.start
                    self._begun = True
                    yield self.engine.transfer.receive(made.batch)
                del group, made  # what the consumer has let go of must not live on while he waits
        finally:
            pipeline.close()
            if process == os.getpid():
                for residency in residencies:
                    residency.settle()

    def _start(self) -> tuple[Pipeline[Group], list[Residency], int]:
        """A pipeline from where the consumer stands on."""
        process, share, engine = os.getpid(), self.batching.share, self.engine
        if self._residencies is None or self._residencies[0] != process:
            self._residencies = process, [stream.open() for stream in self.streams]
        residencies = self._residencies[1]
        self._read_before = self.stats.bytes_read - sum(each.bytes_read for each in residencies)
        starts, turns = self._stand(self.epoch, self._received)
        steps = []
        for stream, residency, start in zip(self.streams, residencies, starts, strict=True):
            words = key(self._identity.seed, self.epoch, _AUGMENT, stream.part or 0)
            maker = BatchMaker(residency, stream.reading, engine.transfer, words, stream.part)
            cut = self.batching.size, self.batching.last, engine.together
            steps.append(schedule(stream.sampler.epoch(self.epoch), residency, maker, share, cut, start))
        ordered = steps[0] if len(steps) == 1 else interleave(steps, turns)
        return Pipeline(ordered, engine.threads, engine.depth), residencies, process

    def _stand(self, epoch: int, received: int) -> tuple[list[int], Ints]:
        """Where each stream stands after ``received`` samples, and, with several, whose turns are left."""
        if len(self.streams) == 1:
            return [received], np.empty(0, np.int64)
        sizes = [self.batching.sizes(stream.sampler) for stream in self.streams]
        turns = take_turns([len(each) for each in sizes], self.batching.turns, self._identity.seed, epoch)
        given = np.empty(len(turns), np.int64)
        for number, each in enumerate(sizes):
            given[turns == number] = each
        ends = np.cumsum(np.append(0, given))
        turn = int(np.searchsorted(ends, received))
        if turn == len(ends) or ends[turn] != received:
            message = (
                f"the saved state counts {received} samples, which is between two batches of {self.batching.size}: "
                "with several parts, go on with the batch size and number of ranks that it was saved with"
            )
            raise StateError(message)
        starts = [int(given[:turn][turns[:turn] == number].sum()) for number in range(len(sizes))]
        return starts, turns[turn:]
