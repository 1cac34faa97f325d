"""Batches of a split: one epoch after another, exact, resumable on any number of ranks."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from outofcore.domains.domain import Reading
from outofcore.loading.batch import Batch, BatchMaker
from outofcore.loading.pipeline import Pipeline
from outofcore.loading.residency.base import Residency
from outofcore.loading.sampling.base import Sampler
from outofcore.loading.schedule import Last, Made, Share, batches, schedule
from outofcore.loading.split import Split
from outofcore.loading.state import Identity
from outofcore.loading.transfer import Transfer

_log = logging.getLogger("outofcore")


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
class Engine:
    """How a loader does its work; nothing of it shows in the batches.

    Attributes
    ----------
    residency, reason
        Where decoded rows lie, and why there.
    make
        Makes that residency.
    threads
        Workers.
    depth
        Batches in flight.
    transfer
        Brings batches to the consumer's device.
    """

    residency: str
    reason: str
    make: Callable[[], Residency]
    threads: int
    depth: int
    transfer: Transfer


class Loader:
    """Iterates over the batches of an epoch; made by :func:`outofcore.loader`.

    Each iteration is an epoch: the first is ``epoch``, each further one the next after one that delivered a batch. One
    iteration is alive at a time; a second one ends the first.

    Attributes
    ----------
    split
        What is read.
    engine
        How.
    batch_size
        Samples of a global batch.
    share
        Which rank of how many.
    epoch
        The epoch of the present iteration, or of the next one if none has begun.
    stats
        What was done so far.
    notes
        What a person should know before the first batch, line by line; goes to the log then.
    """

    def __init__(
        self,
        split: Split,
        sampler: Sampler,
        reading: Reading,
        engine: Engine,
        *,
        identity: Identity,
        batch_size: int,
        share: Share,
        last: Last,
        notes: tuple[str, ...],
    ) -> None:
        self.split = split
        self.engine = engine
        self.batch_size = batch_size
        self.share = share
        self.epoch = 0
        self.stats = Stats()
        self.notes = notes
        self._sampler = sampler
        self._reading = reading
        self._identity = identity
        self._last: Last = last
        self._received = 0  # samples of this epoch, over all ranks
        self._read_before = 0
        self._begun = self._noted = False
        self._living: weakref.ref[Generator[Batch]] | None = None
        self._residency: tuple[int, Residency] | None = None

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return batches(0, self.samples, self.batch_size, self._last, self.share.world)

    def __repr__(self) -> str:
        return (
            f"Loader({self.split.store.root}, {self.split.name}: {self.samples:,} samples, {len(self):,} batches, "
            f"residency {self.engine.residency})"
        )

    @property
    def samples(self) -> int:
        """Samples of an epoch, over all ranks."""
        return self._sampler.positions

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
        if not batches(received, self.samples, self.batch_size, self._last, self.share.world):
            epoch, received = epoch + 1, 0
        self.epoch, self._received, self._begun = epoch, received, False

    def close(self) -> None:
        """End the present iteration and give back all memory."""
        self._end_iteration()
        self._residency = None

    def _end_iteration(self) -> None:
        living = self._living() if self._living else None
        if living is not None:
            living.close()
        self._living = None

    def _iterate(self) -> Generator[Batch]:
        pipeline, residency, process = self._start()
        try:
            while True:
                if process != os.getpid():  # threads and held locks do not survive a fork
                    pipeline, residency, process = self._start()
                waited = pipeline.seconds_waited
                made = next(pipeline, None)
                self.stats.seconds_waited += pipeline.seconds_waited - waited
                self.stats.bytes_read = self._read_before + residency.bytes_read
                if made is None:
                    return
                self.stats.batches += 1
                self.stats.samples += made.count
                self.stats.bytes_delivered += sum(tensor.nbytes for tensor in made.batch.values())
                self._received, self._begun = made.stop, True
                yield self.engine.transfer.receive(made.batch)
        finally:
            pipeline.close()
            if process == os.getpid():
                residency.settle()

    def _start(self) -> tuple[Pipeline[Made], Residency, int]:
        """A pipeline from where the consumer stands on."""
        process = os.getpid()
        if self._residency is None or self._residency[0] != process:
            self._residency = process, self.engine.make()
        residency = self._residency[1]
        self._read_before = self.stats.bytes_read - residency.bytes_read
        words = self._identity.seed, self.epoch, self.share.rank, self.share.world
        stream = schedule(
            self._sampler.epoch(self.epoch),
            residency,
            BatchMaker(residency, self._reading, self.engine.transfer, words),
            self.share,
            self._received,
            self.batch_size,
            self._last,
        )
        return Pipeline(stream, self.engine.threads, self.engine.depth), residency, process
