"""Raw files to pools of windows that are read, tokenized and shuffled together."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from outofcore.domains.streaming import Choose
from outofcore.domains.text.converter import Converter
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.source import units
from outofcore.domains.text.stream.background import side_by_side
from outofcore.domains.text.stream.tally import Tally
from outofcore.domains.text.stream.windows import Origin, Tokens, Windower, Windows, count_windows
from outofcore.domains.text.tokens.tokenizer import load_tokenizer
from outofcore.errors import AuditError, RawInputError
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit, UnitResult


def units_in_memory(threads: int) -> int:
    """Units being tokenized or queued."""
    return 2 * threads + 2


@dataclass(frozen=True)
class Pool:
    """Windows that are shuffled together."""

    number: int  # in its epoch
    origin: Origin  # start of its first window
    windows: Tokens  # (windows, length), in text order


@dataclass(frozen=True)
class RawText:
    """The raw text of a split as windows of tokens, from any place.

    ``choose`` selects documents of the split by key (n, 16). ``seed`` with the epoch decides the order of the files,
    None for the given order. ``threads`` units are tokenized at a time.
    """

    files: tuple[RawFile, ...]
    section: TextSection
    choose: Choose
    seed: int | None
    threads: int
    tally: Tally = field(default_factory=Tally)

    @property
    def length(self) -> int:
        """Tokens per window."""
        return self.section.tensors.seq_len + 1

    def pools(self, epoch: int, phase: int, number: int, origin: Origin, size: int) -> Generator[Pool]:
        """The pools of an epoch, endless: after the last file the text restarts in another order.

        ``phase`` tokens are skipped at the start of each round if windows cross documents. Start with pool ``number``
        at ``origin`` (0 and ``Origin()`` for the first). The last pool of a round may hold fewer than ``size`` windows.
        Raises RawInputError if the whole text has no window.
        """
        while True:
            from_start, pools = origin == Origin(origin.round), 0
            for pool in self._round(epoch, phase, number, origin, size):
                yield pool
                pools += 1
            if from_start and not pools:
                message = f"text.raw: {len(self.files)} files hold no window of {self.length} tokens for this split"
                raise RawInputError(message)
            number, origin = number + pools, Origin(origin.round + 1)

    def count(self, spare: int, limit: int | None = None) -> int:
        """Windows per round; if they cross documents, valid for any phase up to ``spare``.

        Tokenizes everything once, or up to ``limit`` windows.
        """
        tensors = self.section.tensors
        total = windows = carried = 0
        for _, _, result in self._results(range(len(self.files)), 0, 0):
            lengths = result.sequences["length"][self.choose(result.keys)]
            total += int(lengths.sum())
            if tensors.across_documents:
                windows = count_windows(total, self.length, tensors.step, spare)
            elif len(lengths):
                lengths[0] += carried
                carried = int(lengths[-1]) if result.unfinished else 0
                done = lengths[:-1] if result.unfinished else lengths
                windows += count_windows(done, self.length, tensors.step)
            if limit is not None and windows >= limit:
                return limit
        return windows

    def _round(self, epoch: int, phase: int, number: int, origin: Origin, size: int) -> Iterator[Pool]:
        waiting: list[Tokens] = []
        count, begin = 0, origin
        for windows in self._windows(epoch, phase, origin):
            taken = 0
            while taken < len(windows.tokens):
                if not count:
                    begin = windows.origin(taken)
                waiting.append(windows.tokens[taken : taken + size - count])
                taken += len(waiting[-1])
                count += len(waiting[-1])
                if count == size:
                    yield Pool(number, begin, np.concatenate(waiting))
                    number, waiting, count = number + 1, [], 0
        if count:
            yield Pool(number, begin, np.concatenate(waiting))

    def _windows(self, epoch: int, phase: int, origin: Origin) -> Iterator[Windows]:
        """The windows of the rest of a round."""
        tensors = self.section.tensors
        resumed = origin != Origin(origin.round)
        windower = Windower(self.length, tensors.step, phase if tensors.across_documents and not resumed else 0)
        for place, result in self._from(epoch, origin):
            chosen = self.choose(result.keys)
            lengths = result.sequences["length"]
            tokens = result.rows["tokens"][np.repeat(chosen, lengths)]
            if tensors.across_documents:
                yield windower.add(tokens[place.token :], place)
                continue
            stops = np.cumsum(lengths[chosen]).tolist()
            for start, stop in zip([0, *stops], stops, strict=False):
                begin = max(start, place.token)
                if begin < stop:
                    yield windower.add(tokens[begin:stop], replace(place, token=begin))
                if stop != stops[-1] or not result.unfinished:
                    windower.end()

    def _from(self, epoch: int, origin: Origin) -> Iterator[tuple[Origin, UnitResult]]:
        """The units from a place, each with the place of its first token, or of the first requested one."""
        for file, number, result in self._results(self._order(epoch, origin.round), origin.file, origin.unit):
            resumed = (file, number) == (origin.file, origin.unit)
            yield Origin(origin.round, file, number, origin.token if resumed else 0), result

    def _results(self, order: Sequence[int], file: int, unit: int) -> Iterator[tuple[int, int, UnitResult]]:
        """Tokenized units from a place: file in this order, unit in it, and result; raises AuditError."""
        converter = Converter(self.section, load_tokenizer(self.section))
        wanted = (
            (place, number, _unaudited(each))
            for place in range(file, len(order))
            for number, each in enumerate(units([self.files[order[place]]], self.section))
            if place > file or number >= unit
        )
        # One thread pool for all files, since an engine lives as long as its thread.
        results = side_by_side(lambda item: converter(item[2]), wanted, self.threads, units_in_memory(self.threads))
        for (place, number, each), result in results:
            if result.differences:
                message = f"{each.name}: the engine and its oracle differ: {result.differences[0]}"
                raise AuditError(message)
            self.tally.add(order[place], number, result)
            yield place, number, result

    def _order(self, epoch: int, number: int) -> list[int]:
        """The order of the files in a round."""
        order = list(range(len(self.files)))
        if self.seed is not None:
            order.sort(key=lambda file: hashlib.sha256(f"{self.seed} {epoch} {number} {file}".encode()).digest())
        return order


def _unaudited(unit: Unit) -> Unit:
    """The unit without its mark as first of all: only non-repeated records can be audited."""
    detail: dict[str, Any] = {**unit.detail, "first": False}
    return replace(unit, detail=detail)
