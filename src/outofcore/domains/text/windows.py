"""Raw text to pools of windows: read, tokenized in parallel, joined in memory, and cut as a loader cuts a store.

A pool consists of whole units, so that tokens are copied once, however short the stride; it may exceed the size that
was asked for by up to a unit.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.splits import SPLITS, splits_of
from outofcore.domains.text.by_place import Edge
from outofcore.domains.text.convert import Converter
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.source import divided, find_edges, placed_units
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.domains.units import UnitConverter
from outofcore.errors import AuditError, RawInputError
from outofcore.ndarrays import Ints
from outofcore.order.permutation import permutation
from outofcore.order.windows import Window, Windows
from outofcore.raw.files import RawFile
from outofcore.raw.unit import AuditRate, Unit, UnitResult
from outofcore.system.parallel import in_order

Tokens = npt.NDArray[Any]
Pool = tuple[Tokens, Ints]
"""Tokens, and the place of the first of each window, in text order."""

_FILES = 17  # purpose of a key, as those of a loader's order

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
    """The raw text of a split, as pools of windows.

    With ``shuffle``, files are in an order of seed, epoch and round, else in the given one. ``threads`` units are
    tokenized at a time.
    """

    files: tuple[RawFile, ...]
    section: TextSection
    tokenizer: Tokenizer
    window: Window
    split: str
    shuffle: bool
    threads: int
    tally: Tally = field(default_factory=Tally)

    def pools(self, epoch: int, *, repeat: bool, stopped: Callable[[], bool]) -> Generator[Pool]:
        """Units joined until they have the tokens of ``shuffle_windows``; the rest of a round is a smaller pool.

        One round through the text; with ``repeat`` endless, each round in another order. Ends soon after ``stopped()``.
        Raises RawInputError if the whole text has no window.
        """
        least_tokens = self.section.stream.shuffle_windows * self.window.stride
        for number in itertools.count() if repeat else range(1):
            joined = self._joined(epoch)
            for tokens, lengths in self._documents(self._order(epoch, number)):
                if stopped():
                    return
                joined.add(tokens, lengths)
                if joined.rows >= least_tokens:
                    yield joined.pool()
            yield joined.pool()
            if not joined.windows:
                raise RawInputError(
                    f"text.raw: expected a window of {self.window.length:,} tokens in the split {self.split}, found "
                    f"none in {self.tally.accepted:,} documents of all splits; {self.tally.rejected.total():,} were "
                    "rejected"
                )

    def count(self, limit: int | None = None) -> int:
        """Windows per round; tokenizes everything once, or up to ``limit`` windows."""
        joined = self._joined(0)
        for tokens, lengths in self._documents(range(len(self.files))):
            joined.add(tokens, lengths)
            joined.pool()
            if limit is not None and joined.windows >= limit:
                return limit
        return joined.windows

    def _joined(self, epoch: int) -> Joined:
        return Joined(self.window, self.section.train.seed, epoch, moves=self.split == "train")

    def _documents(self, order: Iterable[int]) -> Iterator[tuple[Tokens, Ints]]:
        """Tokens and lengths of the documents of the split, by unit of the files in this order; raises AuditError."""
        converter = UnitConverter(
            Converter(self.section, AUDITED, self.tokenizer), partial(divided, section=self.section)
        )
        wanted = ((file, number, unit) for file in order for number, unit in enumerate(self._units(file)))
        # One thread pool for all files, since an engine lives as long as its thread.
        with (
            ThreadPoolExecutor(self.threads, thread_name_prefix="text-stream") as pool,
            closing(in_order(pool, lambda item: converter(item[2]), wanted, units_in_memory(self.threads))) as results,
        ):
            for (file, number, unit), result in results:
                if result.differences:
                    raise AuditError(f"the engine and its oracle differ: {result.differences[0]}")
                chosen = splits_of(unit, result, self.section.splits) == SPLITS.index(self.split)
                self.tally.add(file, number, result, chosen, self.tokenizer.spelt_bytes)
                if len(result.keys):
                    lengths = result.sequences["length"]
                    yield result.rows["tokens"][np.repeat(chosen, lengths)], lengths[chosen]

    def _units(self, file: int) -> Iterator[Unit]:
        edges = self._edges
        if edges is not None:  # of the first file, as the cutter counts
            edges = tuple(edge._replace(place=(edge.place[0] - file, *edge.place[1:])) for edge in edges)
        return placed_units([self.files[file]], self.section, edges)

    @cached_property
    def _edges(self) -> tuple[Edge, ...] | None:
        return find_edges(self.files, self.section)

    def _order(self, epoch: int, number: int) -> list[int]:
        """The order of the files in a round."""
        count = len(self.files)
        seed = self.section.train.seed
        return permutation(count, seed, epoch, _FILES, number).tolist() if self.shuffle else list(range(count))


class Joined:
    """Tokens that are in no pool yet, and the windows that a loader of all of them would give.

    ``rows`` tokens were added since the last pool; all pools so far have ``windows`` windows, as many in any epoch.
    """

    def __init__(self, window: Window, seed: int, epoch: int, *, moves: bool) -> None:
        self.rows = self.windows = 0
        self._windows = partial(Windows, window=window, phase=moves)
        self._across = window.mode == "pack"
        self._stride = window.stride
        self._drawn_from = seed, epoch
        self._tokens: list[Tokens] = [np.empty(0, np.uint16)]
        self._lengths: list[Ints] = [np.empty(0, np.int64)]
        self._start = 0  # where the next window begins in these tokens, or after them, without the phase

    def add(self, tokens: Tokens, lengths: Ints) -> None:
        """Add documents, which follow the previous ones."""
        self._tokens.append(tokens)
        self._lengths.append(lengths)
        self.rows += len(tokens)

    def pool(self) -> Pool:
        """All windows that are complete; what windows of later documents need is kept."""
        tokens, lengths = np.concatenate(self._tokens), np.concatenate(self._lengths)
        windows = self._windows(
            max(0, len(tokens) - self._start), sequences=lambda: (np.cumsum(lengths) - lengths, lengths)
        )
        firsts = self._start + windows.first_rows(np.arange(windows.samples), windows.phase_of(*self._drawn_from))
        done = len(tokens)
        if self._across:
            done = min(self._start + windows.samples * self._stride, done)
            self._start += windows.samples * self._stride - done
        self.rows, self.windows = 0, self.windows + windows.samples
        self._tokens, self._lengths = [tokens[done:].copy()], [lengths[:0]]
        return tokens, firsts
