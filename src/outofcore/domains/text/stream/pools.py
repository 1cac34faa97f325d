"""From raw files to pools of windows: what is read, tokenized and shuffled together."""

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
    """Units that are tokenized or wait for their turn."""
    return 2 * threads + 2


@dataclass(frozen=True)
class Pool:
    """Windows that are shuffled together.

    Attributes
    ----------
    number
        Of the pool in its epoch.
    origin
        Where its first window begins.
    windows
        (windows, length), in the order of the text.
    """

    number: int
    origin: Origin
    windows: Tokens


@dataclass(frozen=True)
class RawText:
    """The raw text of a split as windows of tokens, from any place on.

    Attributes
    ----------
    files, section
        The raw input and how it is read.
    choose
        Which documents belong to the split, by their keys (n, 16).
    seed
        With the epoch, decides the order of the files; None for the order as it is.
    threads
        Units tokenized at a time.
    tally
        Counts what was read.
    """

    files: tuple[RawFile, ...]
    section: TextSection
    choose: Choose
    seed: int | None
    threads: int
    tally: Tally = field(default_factory=Tally)

    @property
    def length(self) -> int:
        """Tokens of a window."""
        return self.section.tensors.seq_len + 1

    def pools(self, epoch: int, phase: int, number: int, origin: Origin, size: int) -> Generator[Pool]:
        """The pools of an epoch, without end: after the last file the text begins again, in another order.

        Parameters
        ----------
        epoch
            Number of the epoch.
        phase
            Tokens that each round passes over first, where windows cross documents.
        number, origin
            The pool to begin with; 0 and ``Origin()`` for the first.
        size
            Windows of a pool; the last of a round may have fewer.

        Raises
        ------
        RawInputError
            If the whole text holds not one window.
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
        """Windows of a round; where they cross documents, with any phase up to ``spare``.

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
        """The windows of what is left of a round."""
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
        """The units from a place on, each with the place of its first token, or of the first that is asked for."""
        for file, number, result in self._results(self._order(epoch, origin.round), origin.file, origin.unit):
            resumed = (file, number) == (origin.file, origin.unit)
            yield Origin(origin.round, file, number, origin.token if resumed else 0), result

    def _results(self, order: Sequence[int], file: int, unit: int) -> Iterator[tuple[int, int, UnitResult]]:
        """Tokenized units from a place on: file in this order, unit in it, and what it became.

        Raises
        ------
        AuditError
            If the engine and its oracle differ.
        """
        converter = Converter(self.section, load_tokenizer(self.section))
        wanted = (
            (place, number, _unaudited(each))
            for place in range(file, len(order))
            for number, each in enumerate(units([self.files[order[place]]], self.section))
            if place > file or number >= unit
        )
        # One pool of threads for all files: an engine lives as long as its thread.
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
    """The unit; that it is the first of all, and so audited, is said of one that is read once."""
    detail: dict[str, Any] = {**unit.detail, "first": False}
    return replace(unit, detail=detail)
