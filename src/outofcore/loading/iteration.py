"""Iterate over the batches of one or several splits: epoch after epoch, exact, resumable on any number of ranks."""

from __future__ import annotations

import atexit
import logging
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice
from typing import Any, NoReturn, Self
from weakref import WeakSet

from torch.utils.data import IterableDataset, get_worker_info

from outofcore.checks import shown, whole
from outofcore.domains.task import Batch
from outofcore.errors import ParamsError, StateError
from outofcore.loading.epoch import Group, SplitEpoch, SplitReader
from outofcore.loading.notes import notes_of
from outofcore.loading.origins import Appearance, Origin, appearances, mixing_of, origins_of_step
from outofcore.loading.state import check_state, count_in, layout_of, state_of
from outofcore.loading.workers import Job, Workers
from outofcore.order.batching import StepOrder, Steps
from outofcore.system.recycling import keep_freed_memory, return_freed_memory

_MOST_EPOCHS = 2**53  # JSON readers keep smaller numbers

_log = logging.getLogger("outofcore")
_loaders: WeakSet[Loader] = WeakSet()  # that have read


@dataclass
class Stats:
    """What a loader has done since it was made."""

    seconds: float = 0.0  # in which batches were consumed: from the start of each iteration to its last batch
    seconds_waited: float = 0.0  # by the consumer
    bytes_read: int = 0  # from the store
    bytes_delivered: int = 0  # to the consumer, as tensors
    batches: int = 0  # delivered on this rank
    samples: int = 0  # delivered on this rank

    @property
    def samples_per_second(self) -> float:
        """Delivered on this rank, while batches were consumed."""
        return self.samples / self.seconds if self.seconds else 0.0

    @property
    def share_waited(self) -> float:
        """The part of a step in which the consumer waits for its batch, 0 to 1."""
        return min(1.0, self.seconds_waited / self.seconds) if self.seconds else 0.0


class Loader(IterableDataset[Batch]):
    """Iterates over the batches of an epoch; made by :func:`outofcore.loader`.

    Each iteration is an epoch: the first is ``epoch``; each later one is the next epoch if the previous iteration
    delivered a batch. Only one iteration is active at a time: a second one ends the first, which raises an error when
    it is continued. Leaving a ``with`` block closes the loader.

    ``DataLoader(loader, batch_size=None)`` passes its batches through; the loader reads with its own threads and
    refuses worker processes. It cannot be pickled; its state can.

    Attributes
    ----------
    stats
        Since the loader was made: ``samples_per_second``, ``share_waited`` (of a step), ``seconds_waited``,
        ``bytes_read``, ``bytes_delivered``, ``batches``, ``samples``.
    """

    def __init__(
        self,
        readers: Sequence[SplitReader],  # one per part
        steps: StepOrder,
        *,
        memory: int,  # bytes
        threads: int,  # that decode, and as many that make batches
        flight: tuple[int, int, bool],  # as BatchBytes.within has it
        skip: Steps,
    ) -> None:
        self.readers = tuple(readers)
        self.stats = Stats()
        self._epoch = 0
        self._steps, self._batching = steps, steps.batching
        self._memory, self._threads, self._skip = memory, threads, skip
        self._groups, self._group_batches, self._returns = flight
        self._received = 0  # samples of this epoch, over all ranks
        self._begun = self._noted = False
        self._iteration: object = None  # the one that may deliver batches
        self._workers: Workers | None = None  # kept for the next epoch, unless this one is left before its end
        self._reading = False  # for an epoch that has not ended
        self._coming: Iterator[Job[Group]] = iter(())  # not submitted yet
        self._submitted: deque[Job[Group]] = deque()
        self._ready: Group = []  # made, not delivered yet

    def __len__(self) -> int:
        """Batches per epoch, those of ``skip`` included."""
        return sum(self._batching.batches(0, positions) for positions in self._steps.positions)

    def __getitem__(self, index: object) -> Batch:
        """Raise TypeError: batches come in the order of an epoch."""
        raise TypeError(
            f"a loader gives the batches of an epoch in order, got [{index!r}]: write 'for batch in loader', or take "
            "samples by number from outofcore.ZarrDataset(store, split)[...]"
        )

    def __repr__(self) -> str:
        splits = ", ".join(f"{reader.split.path} {reader.plan.kind}" for reader in self.readers)
        return f"Loader({splits}: {self.samples:,} samples in {len(self):,} batches of {self._batching.size:,})"

    def __reduce__(self) -> NoReturn:
        raise ParamsError(
            "a loader cannot be pickled or copied: call loader(...) where batches are needed, "
            "and continue there with load_state_dict(state)"
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Lines for the user, logged before the first batch."""
        return tuple(notes_of(self.readers, self._batching, self._memory, self._threads))

    @property
    def samples(self) -> int:
        """Samples per epoch, over all ranks."""
        return self._steps.samples

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Generator[Batch]:
        """The rest of the current epoch's batches, or the next epoch's.

        Raises
        ------
        ParamsError
            In a ``DataLoader`` with worker processes; when continued after a later iteration has
            begun.
        """
        if get_worker_info() is not None:  # each of which would read all of it
            raise ParamsError(
                "a loader reads with threads of its own: use it directly, or DataLoader(..., num_workers=0)"
            )
        self._iteration = None
        self._end()
        if self._begun:
            self.set_epoch(self.epoch + 1)
        if not self._noted:
            self._noted = True
            for note in self.notes:
                _log.log(logging.INFO if self.samples else logging.WARNING, "%s", note)
        self._iteration = iteration = object()
        return self._iterate(iteration)

    @property
    def epoch(self) -> int:
        """The epoch of the current iteration, or of the next one if none has begun."""
        return self._epoch

    @property
    def step(self) -> int:
        """The last step of which all samples were received, from epoch 0 on: the same on any number of ranks."""
        return self._steps.before(self.epoch, self._received)

    @property
    def epoch_steps(self) -> int:
        """Steps of an epoch, on any number of ranks: more than batches where the last samples are fewer than these."""
        return self._steps.steps

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of this epoch; one that has begun ends."""
        self._move(whole("epoch", epoch, 0, _MOST_EPOCHS), 0)

    def state_dict(self) -> dict[str, Any]:
        """The consumer's position, and the steps before it that ``skip`` left out; valid after any batch."""
        return self._state_at(self.epoch, self._received)

    def _state_at(self, epoch: int, received: int) -> dict[str, Any]:
        return state_of(self.readers, self._layout, self._steps, self._skip, epoch, received)

    @cached_property
    def _layout(self) -> dict[str, Any]:
        return layout_of(self.readers, self._steps)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after the last batch that was received, on any number of ranks; an iteration that has begun ends.

        If fewer samples than ranks are left, the next epoch begins without them, which is logged. Steps of ``skip``
        that are still to come may differ from those of the loader that saved the state.

        Raises
        ------
        StateError
            If the state is malformed, or belongs to another store, split, seed or layout, or other steps before it were
            left out.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"expected a loader's state, got {shown(state)}")
        epoch, received = (count_in(state, name, _MOST_EPOCHS) for name in ("epoch", "received"))
        check_state({**state, "epoch": epoch, "received": received}, self._state_at(epoch, received))
        count_in(state, "received", self.samples)
        starts, turns = self._steps.rest(epoch, received)
        left = len(turns) or self._batching.batches(starts[0], self.samples)
        if all(number in self._skip for number in islice(self._steps.numbers(epoch, received), left)):
            if self._batching.last == "keep" and not left and received < self.samples:
                counts = self.samples - received, self.samples, epoch, self._batching.world
                _log.warning("the last %d of %d samples of epoch %d are left out: fewer than the %d ranks", *counts)
            epoch, received = epoch + 1, 0
        self._move(epoch, received)

    def mixing(self, column: str) -> str:
        """How far the values of a column of the sequences that are in memory at a time are off those of the split.

        It reads that column, and holds 20 bytes for each sequence meanwhile, next to the loader's memory.

        Parameters
        ----------
        column
            Of labels, text or numbers, such as ``"eco"``.

        Returns
        -------
        str
            A line for each part.

        Raises
        ------
        ParamsError
            If the loader reads no pools, or the column has more than 65,536 values.
        StoreError
            If there is no such column.
        """
        return "\n".join(mixing_of(reader.split, reader.sampler, column) for reader in self.readers)

    def trace(self, epoch: int, step: int) -> list[Origin]:
        """Where the samples of a batch come from, over all ranks; from the order alone, without reading a row.

        ::

            for origin in batches.trace(0, 340):
                print(origin.sample, origin.record, origin.columns)

        Parameters
        ----------
        epoch
            From 0, as in :meth:`set_epoch`.
        step
            Which batch, from 1 for the first of that epoch, counted on through the epochs that follow: of epoch 0, the
            step that training prints. One of fewer samples than ranks is in the batch before.

        Returns
        -------
        list of Origin
            In the order of the batch's samples. A sample whose window has rows of several sequences, such as packed
            documents, has an entry for each. On one rank that is the order of the batch; rank ``r`` of ``n`` has the
            samples ``s`` for which ``(samples before the batch + s) % n`` is ``r``.

        Raises
        ------
        ParamsError
            If the loader has no batch, or a number is out of range.
        """
        if not len(self):
            raise ParamsError("this loader has no batch, so no step")
        later, step = divmod(whole("step", step, 1) - 1, self.epoch_steps)
        epoch = whole("epoch", epoch, 0, _MOST_EPOCHS) + later
        return origins_of_step(self.readers, self._steps, epoch, step)

    def steps_of(self, record: str, epochs: int = 1) -> list[Appearance]:
        """The steps at which rows of a record of the raw input come, in the first epochs.

        Parameters
        ----------
        record
            ``file:offset`` or ``file:member:offset``, as :meth:`trace` has it in ``record``.
        epochs
            How many, from epoch 0 on.

        Returns
        -------
        list of Appearance
            Epoch, step of that epoch from 1, and number of samples; none if the record is in another split, or left out
            by ``where``.
        """
        return appearances(self.readers, self._steps, record, whole("epochs", epochs, 1))

    def close(self) -> None:
        """End the current iteration and free all memory."""
        self._iteration = None
        self._end()
        if self._workers is not None and self._workers.close():
            self._workers = None
        for reader in self.readers:
            reader.close()

    def _move(self, epoch: int, received: int) -> None:
        """Let the next batch be the one after ``received`` samples; an iteration that delivered others ends."""
        if self._reading:
            self._iteration = object()
            self._end()
        self._epoch, self._received, self._begun = epoch, received, False

    def _iterate(self, iteration: object) -> Generator[Batch]:
        before, numbers = (
            time.perf_counter(),
            self._steps.numbers(self.epoch, self._received) if self._skip else count(),
        )
        try:
            while self._iteration is iteration:
                if not self._ready:
                    self._ready = self._take()
                    if not self._ready:
                        return
                delivery = self._ready.pop(0)
                if next(numbers) in self._skip:
                    self._received, self._begun = self._received + delivery.stop - delivery.start, True
                    del delivery
                    continue
                batch = self.readers[0].stream.receive(delivery.batch, delivery.marked)
                self.stats.batches += 1
                self.stats.samples += delivery.count
                self.stats.bytes_delivered += delivery.bytes
                now = time.perf_counter()
                self.stats.seconds, before = self.stats.seconds + now - before, now
                # No calls from here on, so that no Ctrl-C can come between counting a batch and yielding it.
                self._received, self._begun = self._received + delivery.stop - delivery.start, True
                yield batch
                del delivery, batch  # a batch that the consumer has released must not stay alive while it waits
            if self._iteration is not None:  # else the loader was closed
                raise ParamsError(
                    "this iteration ended when another one over the same loader began, or was moved by set_epoch() or "
                    "load_state_dict(): begin another one, or make a second loader to iterate twice at a time"
                )
        finally:
            if self._iteration is iteration:
                self._end()

    def _take(self) -> Group:
        """The next batches; none at the end of the epoch."""
        if self._workers is None or not self._reading or not self._workers.working:
            self._begin()
        while len(self._submitted) < self._groups and (group := next(self._coming, None)) is not None:
            self._submitted.append(group)
        if not self._submitted:
            self._settle()
            return []
        started = time.perf_counter()
        batches = self._submitted.popleft().result()
        self.stats.seconds_waited += time.perf_counter() - started
        self.stats.bytes_read = sum(reader.bytes_read for reader in self.readers)
        return batches

    def _begin(self) -> None:
        """Begin to read at the consumer's position."""
        self._end()
        (return_freed_memory if self._returns else keep_freed_memory)()
        starts, turns = self._steps.rest(self.epoch, self._received)
        _loaders.add(self)
        self._reading = True
        if self._workers is None or not self._workers.working:
            self._workers = Workers(self._threads, min(self._groups, self._threads))
            self._workers.start()
        parts = [
            SplitEpoch(reader, self.epoch, self._batching, self._workers).groups(start, self._group_batches)
            for reader, start in zip(self.readers, starts, strict=True)
        ]
        self._coming = parts[0] if len(parts) == 1 else (next(parts[turn]) for turn in turns)

    def _end(self) -> None:
        """Stop what reads, and clean up once it is gone; if a Ctrl-C interrupts that, the next call completes it."""
        self._ready, self._coming = [], iter(())
        self._submitted.clear()
        if self._reading and (self._workers is None or self._workers.close()):
            self._workers = None
            self._settle()

    def _settle(self) -> None:
        """Wait until nothing is read or made, and free what is not kept for the next epoch."""
        if self._workers is not None:
            self._workers.wait()
        for reader in self.readers:
            reader.settle()
        self._reading = False


@atexit.register
def _close_all() -> None:
    """Close loaders while there are threads and modules, which finalizers of later find gone."""
    for loader in tuple(_loaders):
        loader.close()
