"""Batches of one or several splits: epoch after epoch, exact, resumable on any number of ranks."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset, get_worker_info

from outofcore.errors import ParamsError, StateError
from outofcore.loading.arguments import whole
from outofcore.loading.batch import Batch, BatchMaker
from outofcore.loading.order import Sampler
from outofcore.loading.permutation import key
from outofcore.loading.pipeline import Pipeline
from outofcore.loading.residency import Residency
from outofcore.loading.schedule import Group, schedule
from outofcore.loading.spans import Last, Share, batches, spans
from outofcore.loading.split import Split
from outofcore.loading.state import Identity
from outofcore.loading.transfer import Transfer
from outofcore.loading.turns import Turns, interleave, take_turns

Ints = npt.NDArray[np.int64]

_log = logging.getLogger("outofcore")

_AUGMENT = 32  # purpose of a key; those of the order and the samplers are lower numbers


@dataclass
class Stats:
    """What a loader has done since it was made."""

    seconds_waited: float = 0.0  # by the consumer
    bytes_read: int = 0  # from the store
    bytes_delivered: int = 0  # to the consumer, as tensors
    batches: int = 0  # delivered on this rank
    samples: int = 0  # delivered on this rank


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The samples of a split, and how they are drawn, read and held."""

    split: Split
    sampler: Sampler
    residency: str
    reason: str  # why this residency
    open: Callable[[], Residency]  # creates the residency
    part: int | None  # place of its part in the store, with several streams


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How batches are made, without effect on their content."""

    threads: int  # workers besides the consumer
    depth: int  # groups of batches in flight, including the consumer's
    together: int  # batches per group; 1 with several streams
    transfer: Transfer


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How samples become batches."""

    size: int  # samples per global batch
    share: Share
    last: Last  # treatment of a last batch that is not full
    turns: Turns  # with several streams, which gives the next batch

    def count(self, sampler: Sampler, received: int = 0) -> int:
        """Batches of a stream after ``received`` samples."""
        return batches(received, sampler.positions, self.size, self.last, self.share.world)

    def sizes(self, sampler: Sampler) -> list[int]:
        """Samples of each batch of a stream, over all ranks, without repeated ones."""
        positions = sampler.positions
        return [
            min(stop, positions) - start for start, stop in spans(0, positions, self.size, self.last, self.share.world)
        ]


class Loader(IterableDataset[Batch]):
    """Iterates over the batches of an epoch; made by :func:`outofcore.loader`.

    Each iteration is an epoch: the first is ``epoch``; each later one is the next epoch if the previous iteration
    delivered a batch. Only one iteration is active at a time; a second one ends the first. Leaving a ``with`` block
    closes the loader.

    ``DataLoader(loader, batch_size=None)`` passes its batches through; the loader reads with its own threads and
    refuses worker processes.

    Attributes
    ----------
    epoch
        The epoch of the current iteration, or of the next one if none has begun.
    stats
        Counters since the loader was made.
    notes
        Lines for the user, logged before the first batch.
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
        self._pipeline: Pipeline[Group] | None = None  # begun but not ended
        self._read_before = 0

    def __len__(self) -> int:
        """Batches per epoch."""
        return sum(self.batching.count(stream.sampler) for stream in self.streams)

    def __repr__(self) -> str:
        splits = ", ".join(f"{each.split.path} {each.residency}" for each in self.streams)
        return f"Loader({splits}: {self.samples:,} samples in {len(self):,} batches of {self.batching.size:,})"

    @property
    def samples(self) -> int:
        """Samples per epoch, over all ranks."""
        return sum(stream.sampler.positions for stream in self.streams)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Generator[Batch]:
        """The rest of the current epoch's batches, or the next epoch's.

        Raises
        ------
        ParamsError
            In a worker process of a ``DataLoader``.
        """
        if get_worker_info() is not None:
            message = "a loader reads with threads of its own: use it directly, or DataLoader(..., num_workers=0)"
            raise ParamsError(message)
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
        """Start the next iteration at the beginning of this epoch."""
        self.epoch, self._received, self._begun = whole("epoch", epoch, 0), 0, False

    def state_dict(self) -> dict[str, Any]:
        """The consumer's position; valid after any batch."""
        return self._identity.state(self.epoch, self._received)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after the last batch that was received, on any number of ranks.

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
        """End the current iteration and free all memory."""
        self._end_iteration()
        self._residencies = None

    def _end_iteration(self) -> None:
        living = self._living() if self._living else None
        if living is not None:
            living.close()
        self._living = None
        self._end_pipeline()

    def _end_pipeline(self) -> None:
        """Stop the workers, then clean up; if a Ctrl-C interrupts that, the next call completes it."""
        if self._pipeline is None:
            return
        self._pipeline.close()
        if self._residencies is not None and self._residencies[0] == os.getpid():
            for residency in self._residencies[1]:
                residency.settle()
        self._pipeline = None

    def _iterate(self) -> Generator[Batch]:
        process = -1
        try:
            while True:
                if process != os.getpid():  # threads and held locks do not survive a fork
                    process = os.getpid()
                    pipeline, residencies = self._start()
                waited = pipeline.seconds_waited
                group = next(pipeline, None)
                self.stats.seconds_waited += pipeline.seconds_waited - waited
                self.stats.bytes_read = self._read_before + sum(each.bytes_read for each in residencies)
                if group is None:
                    return
                for made in group:
                    batch = self.engine.transfer.receive(made.batch)
                    self.stats.batches += 1
                    self.stats.samples += made.count
                    self.stats.bytes_delivered += made.bytes
                    # No calls from here on, so that no Ctrl-C can come between counting a batch and yielding it.
                    self._received, self._begun = self._received + made.stop - made.start, True
                    yield batch
                del group, made, batch  # batches that the consumer has released must not stay alive while it waits
        finally:
            self._end_pipeline()

    def _start(self) -> tuple[Pipeline[Group], list[Residency]]:
        """A pipeline from the consumer's position."""
        process, share, engine = os.getpid(), self.batching.share, self.engine
        self._end_pipeline()
        if self._residencies is None or self._residencies[0] != process:
            self._residencies = process, [stream.open() for stream in self.streams]
        residencies = self._residencies[1]
        self._read_before = self.stats.bytes_read - sum(each.bytes_read for each in residencies)
        starts, turns = self._stand(self.epoch, self._received)
        steps = []
        for stream, residency, start in zip(self.streams, residencies, starts, strict=True):
            words = key(self._identity.seed, self.epoch, _AUGMENT, stream.part or 0)
            maker = BatchMaker(residency, stream.split.reading, engine.transfer, words, stream.part)
            cut = self.batching.size, self.batching.last, engine.together
            windows = stream.split.windows
            first_rows = partial(windows.first_rows, phase=windows.phase_of(self._identity.seed, self.epoch))
            steps.append(schedule(stream.sampler.epoch(self.epoch), first_rows, residency, maker, share, cut, start))
        ordered = steps[0] if len(steps) == 1 else interleave(steps, turns)
        pipeline = self._pipeline = Pipeline(ordered, engine.threads, engine.depth)
        return pipeline, residencies

    def _stand(self, epoch: int, received: int) -> tuple[list[int], Ints]:
        """Position of each stream after ``received`` samples, and, with several, the remaining turns."""
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
