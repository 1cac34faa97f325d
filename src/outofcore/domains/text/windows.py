"""Raw text to windows of tokens: read, tokenized side by side, cut, and gathered into pools."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.conversion.executors import in_order
from outofcore.conversion.splits import SPLITS, splits_of
from outofcore.conversion.units import UnitConverter
from outofcore.domains.text.convert import Converter
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.source import Places, divided, find_places, placed_units
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.errors import AuditError, RawInputError
from outofcore.raw.files import RawFile
from outofcore.raw.unit import AuditRate, Unit, UnitResult

Tokens = npt.NDArray[Any]

AUDITED = AuditRate(1024)
"""How many the oracle checks of the documents streamed, whose number nothing forecasts."""


def units_in_memory(threads: int) -> int:
    """Units being tokenized or queued."""
    return 2 * threads + 2


class Tally:
    """Counts the documents that a stream reads, each once; bytes of its split, raw and spelt."""

    def __init__(self) -> None:
        self.spelt = self.bytes = 0
        self.found = 0
        self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self._seen: set[tuple[int, int]] = set()

    def add(self, file: int, number: int, result: UnitResult, chosen: npt.NDArray[np.bool_], spelt: Tokens) -> None:
        """Count a unit, of which some documents are in the split, unless already counted; ``spelt`` bytes by id."""
        if (file, number) in self._seen:
            return
        self._seen.add((file, number))
        self.found += result.found
        self.accepted += result.found - len(result.rejects)
        self.rejected.update(reject.reason for reject in result.rejects)
        if not len(result.keys):
            return
        tokens = result.rows["tokens"][np.repeat(chosen, result.sequences["length"])]
        self.spelt += int(spelt[tokens].sum())
        self.bytes += int(result.sequences["bytes"][chosen].sum())

    def figures(self) -> dict[str, Any]:
        """Found, accepted, and rejected by reason."""
        return {"found": self.found, "accepted": self.accepted, "rejected": dict(sorted(self.rejected.items()))}


@dataclass(frozen=True)
class RawText:
    """The raw text of a split as windows of tokens.

    ``seed`` with the epoch decides the order of the files, None for the given order. ``threads`` units are tokenized at
    a time.
    """

    files: tuple[RawFile, ...]
    section: TextSection
    tokenizer: Tokenizer
    split: str
    seed: int | None
    threads: int
    tally: Tally = field(default_factory=Tally)

    @property
    def length(self) -> int:
        """Tokens per window."""
        return self.section.tensors.seq_len + 1

    @property
    def spare(self) -> int:
        """Most tokens that the phase of an epoch skips: as a loader does, in the split ``train`` only."""
        tensors = self.section.tensors
        return tensors.step - 1 if tensors.phase and tensors.across_documents and self.split == "train" else 0

    def pools(
        self, epoch: int, phase: int, size: int, *, repeat: bool, stopped: Callable[[], bool]
    ) -> Generator[Tokens]:
        """Windows that are shuffled together, (windows, length), in text order.

        One round through the text; with ``repeat`` endless, each round in another order. ``phase`` tokens, ``spare`` at
        most, are skipped at the start of each round; a round has equally many windows for any phase. Its last pool may
        hold fewer than ``size``. Ends soon after ``stopped()``. Raises RawInputError if the whole text has no window.
        """
        for number in itertools.count() if repeat else range(1):
            waiting: list[Tokens] = []
            gathered = pools = 0
            for windows in self._windows(epoch, number, phase):
                if stopped():
                    return
                taken = 0
                while taken < len(windows):
                    waiting.append(windows[taken : taken + size - gathered])
                    taken += len(waiting[-1])
                    gathered += len(waiting[-1])
                    if gathered == size:
                        yield np.concatenate(waiting)
                        waiting, gathered, pools = [], 0, pools + 1
            if gathered:
                yield np.concatenate(waiting)
            elif not pools:
                raise RawInputError(
                    f"text.raw: expected a window of {self.length:,} tokens in the split {self.split}, found none in "
                    f"{self.tally.accepted:,} documents of all splits; {self.tally.rejected.total():,} were rejected"
                )

    def count(self, limit: int | None = None) -> int:
        """Windows per round; tokenizes everything once, or up to ``limit`` windows."""
        tensors = self.section.tensors
        total = windows = 0
        for unit, result in self._results(range(len(self.files))):
            lengths = result.sequences["length"][self._chosen(unit, result)]
            total += int(lengths.sum())
            if tensors.across_documents:
                windows = count_windows(total, self.length, tensors.step, self.spare)
            else:
                windows += count_windows(lengths, self.length, tensors.step)
            if limit is not None and windows >= limit:
                return limit
        return windows

    def _windows(self, epoch: int, number: int, phase: int) -> Iterator[Tokens]:
        tensors = self.section.tensors
        windower = Windower(self.length, tensors.step, phase, self.spare - phase)
        for unit, result in self._results(self._order(epoch, number)):
            chosen, lengths = self._chosen(unit, result), result.sequences["length"]
            tokens = result.rows["tokens"][np.repeat(chosen, lengths)]
            if tensors.across_documents:
                yield windower.add(tokens)
                continue
            stops = np.cumsum(lengths[chosen]).tolist()
            for start, stop in zip([0, *stops], stops, strict=False):
                yield windower.add(tokens[start:stop])
                windower.end()

    def _results(self, order: Iterable[int]) -> Iterator[tuple[Unit, UnitResult]]:
        """The units of the files in this order, tokenized; raises AuditError."""
        converter = UnitConverter(
            Converter(self.section, AUDITED, self.tokenizer), partial(divided, section=self.section)
        )
        wanted = ((file, number, _unaudited(unit)) for file in order for number, unit in enumerate(self._units(file)))
        # One thread pool for all files, since an engine lives as long as its thread.
        with (
            ThreadPoolExecutor(self.threads, thread_name_prefix="text-stream") as pool,
            closing(in_order(pool, lambda item: converter(item[2]), wanted, units_in_memory(self.threads))) as results,
        ):
            for (file, number, unit), result in results:
                if result.differences:
                    raise AuditError(f"the engine and its oracle differ: {result.differences[0]}")
                self.tally.add(file, number, result, self._chosen(unit, result), self.tokenizer.spelt_bytes)
                if len(result.keys):
                    yield unit, result

    def _units(self, file: int) -> Iterator[Unit]:
        where = self._places
        return placed_units(
            [self.files[file]], self.section, Places(where.starts[file:], where.total) if where else None
        )

    @cached_property
    def _places(self) -> Places | None:
        return find_places(self.files, self.section)

    def _chosen(self, unit: Unit, result: UnitResult) -> npt.NDArray[np.bool_]:
        """Which documents of a unit are of the split."""
        chosen: npt.NDArray[np.bool_] = splits_of(unit, result, self.section.splits) == SPLITS.index(self.split)
        return chosen

    def _order(self, epoch: int, number: int) -> list[int]:
        """The order of the files in a round."""
        order = list(range(len(self.files)))
        if self.seed is not None:
            order.sort(key=lambda file: hashlib.sha256(f"{self.seed} {epoch} {number} {file}".encode()).digest())
        return order


def _unaudited(unit: Unit) -> Unit:
    """The unit without its mark as first of all: only non-repeated records can be audited."""
    return replace(unit, detail={**unit.detail, "first": False})


class Windower:
    """Cuts consecutive tokens into windows of ``length``, ``step`` apart, after skipping ``skip``.

    A window counts only if ``spare`` more tokens follow it.
    """

    def __init__(self, length: int, step: int, skip: int = 0, spare: int = 0) -> None:
        self._length = length
        self._step = step
        self._skip = skip
        self._spare = spare
        self._waiting: list[Tokens] = []  # less than a window and what must follow it

    def add(self, tokens: Tokens) -> Tokens:
        """The windows (windows, length) completed by these tokens, which continue the previous ones."""
        text = np.concatenate([*self._waiting, tokens[self._skip :]])
        self._skip = max(0, self._skip - len(tokens))
        count = max(0, (len(text) - self._spare - self._length) // self._step + 1)
        done = count * self._step
        self._skip += max(0, done - len(text))
        self._waiting = [text[done:].copy()]
        if not count:
            return text[:0, None]
        return np.lib.stride_tricks.sliding_window_view(text, self._length)[: done : self._step]

    def end(self) -> None:
        """Discard the rest: what follows does not continue it."""
        self._waiting, self._skip = [], 0


def count_windows(tokens: npt.NDArray[np.int64] | int, length: int, step: int, spare: int = 0) -> int:
    """Windows in stretches of these lengths, of which ``spare`` tokens may be skipped, each cut separately."""
    return int(np.maximum((np.asarray(tokens) - spare - length) // step + 1, 0).sum())
