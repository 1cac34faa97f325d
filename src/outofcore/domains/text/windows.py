"""Raw text to windows of tokens: read, tokenized side by side, cut, and gathered into pools."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.conversion.executors import in_order
from outofcore.domains.streaming import Choose
from outofcore.domains.text.converter import Converter
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.source import units
from outofcore.domains.text.tokens.tokenizer import load_tokenizer
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
    """Counts the documents that a stream reads, each once however often it is read."""

    def __init__(self) -> None:
        self.found = 0
        self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self._seen: set[tuple[int, int]] = set()

    def add(self, file: int, unit: int, result: UnitResult) -> None:
        """Count a unit unless already counted."""
        if (file, unit) in self._seen:
            return
        self._seen.add((file, unit))
        self.found += result.found
        self.accepted += result.found - len(result.rejects)
        self.rejected.update(reject.reason for reject in result.rejects)

    def figures(self) -> dict[str, Any]:
        """Found, accepted, and rejected by reason."""
        return {"found": self.found, "accepted": self.accepted, "rejected": dict(sorted(self.rejected.items()))}


@dataclass(frozen=True)
class RawText:
    """The raw text of a split as windows of tokens.

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

    def pools(self, epoch: int, phase: int, size: int) -> Generator[Tokens]:
        """Windows that are shuffled together, (windows, length), in text order.

        Endless: after the last file the text restarts in another order. ``phase`` tokens are skipped at the start of
        each round if windows cross documents. The last pool of a round may hold fewer than ``size`` windows. Raises
        RawInputError if the whole text has no window.
        """
        for number in itertools.count():
            waiting: list[Tokens] = []
            held = made = 0
            for windows in self._windows(epoch, number, phase):
                taken = 0
                while taken < len(windows):
                    waiting.append(windows[taken : taken + size - held])
                    taken += len(waiting[-1])
                    held += len(waiting[-1])
                    if held == size:
                        yield np.concatenate(waiting)
                        waiting, held, made = [], 0, made + 1
            if held:
                yield np.concatenate(waiting)
            elif not made:
                message = f"text.raw: {len(self.files)} files hold no window of {self.length} tokens for this split"
                raise RawInputError(message)

    def count(self, spare: int, limit: int | None = None) -> int:
        """Windows per round; if they cross documents, valid for any phase up to ``spare``.

        Tokenizes everything once, or up to ``limit`` windows.
        """
        tensors = self.section.tensors
        total = windows = carried = 0
        for result in self._results(range(len(self.files))):
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

    def _windows(self, epoch: int, number: int, phase: int) -> Iterator[Tokens]:
        """The windows of a round."""
        tensors = self.section.tensors
        windower = Windower(self.length, tensors.step, phase if tensors.across_documents else 0)
        for result in self._results(self._order(epoch, number)):
            chosen, lengths = self.choose(result.keys), result.sequences["length"]
            tokens = result.rows["tokens"][np.repeat(chosen, lengths)]
            if tensors.across_documents:
                yield windower.add(tokens)
                continue
            stops = np.cumsum(lengths[chosen]).tolist()
            for start, stop in zip([0, *stops], stops, strict=False):
                yield windower.add(tokens[start:stop])
                if stop != stops[-1] or not result.unfinished:
                    windower.end()

    def _results(self, order: Iterable[int]) -> Iterator[UnitResult]:
        """The units of the files in this order, tokenized; raises AuditError."""
        converter = Converter(self.section, AUDITED, load_tokenizer(self.section))
        wanted = (
            (file, number, _unaudited(unit))
            for file in order
            for number, unit in enumerate(units([self.files[file]], self.section))
        )
        # One thread pool for all files, since an engine lives as long as its thread.
        with (
            ThreadPoolExecutor(self.threads, thread_name_prefix="text-stream") as pool,
            closing(in_order(pool, lambda item: converter(item[2]), wanted, units_in_memory(self.threads))) as results,
        ):
            for (file, number, unit), result in results:
                if result.differences:
                    message = f"{unit.name}: the engine and its oracle differ: {result.differences[0]}"
                    raise AuditError(message)
                self.tally.add(file, number, result)
                yield result

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
    """Cuts consecutive tokens into windows of ``length``, ``step`` apart, after skipping ``skip``."""

    def __init__(self, length: int, step: int, skip: int = 0) -> None:
        self._length = length
        self._step = step
        self._skip = skip
        self._waiting: list[Tokens] = []  # less than a window

    def add(self, tokens: Tokens) -> Tokens:
        """The windows (windows, length) completed by these tokens, which continue the previous ones."""
        text = np.concatenate([*self._waiting, tokens[self._skip :]])
        self._skip = max(0, self._skip - len(tokens))
        count = max(0, (len(text) - self._length) // self._step + 1)
        done = count * self._step
        self._skip += max(0, done - len(text))
        self._waiting = [text[done:].copy()]
        return np.lib.stride_tricks.sliding_window_view(text, self._length)[:: self._step] if count else text[:0, None]

    def end(self) -> None:
        """Discard the rest: what follows does not continue it."""
        self._waiting, self._skip = [], 0


def count_windows(tokens: npt.NDArray[np.int64] | int, length: int, step: int, spare: int = 0) -> int:
    """Windows in stretches of these lengths, each cut separately.

    ``spare`` tokens at the start of a stretch may be skipped.
    """
    return int(np.maximum((np.asarray(tokens) - spare - length) // step + 1, 0).sum())
