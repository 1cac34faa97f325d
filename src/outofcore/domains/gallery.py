"""Pictures and distributions of a store, which :meth:`Domain.pictures` and :meth:`Domain.distributions` return."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outofcore.store.reader import Store

MOST_BARS = 24


@dataclass(frozen=True)
class Picture:
    """Stored rows, drawn."""

    title: str  # caption line
    alt: str  # description for readers who cannot see it
    svg: str  # a complete, self-contained SVG document


@dataclass(frozen=True)
class Passage:
    """Stored rows as text cut into pieces."""

    title: str  # line above it
    pieces: tuple[str, ...]  # the text, one piece per row; adjacent pieces differ in colour


@dataclass(frozen=True)
class Distribution:
    """A histogram."""

    title: str  # what is counted ("Elo of the players")
    axis: str  # unit of the labels ("Elo", "plies")
    of: str  # unit of the counts ("games")
    labels: tuple[str, ...]  # one per bar
    counts: tuple[float, ...]


def column(store: Store, name: str, parts: Sequence[str] | None = None) -> npt.NDArray[np.generic]:
    """A column of the sequences, over all splits of the given parts (default: all)."""
    columns = [store.sequences(split, part)[name].read() for part in parts or store.parts for split in store.splits]
    return np.concatenate(columns)


def spread(store: Store, count: int, part: str = "") -> Iterator[tuple[str, int, int, int]]:
    """Evenly spaced sequences of the first non-empty split: split, number, first row, rows."""
    for split in store.splits:
        sequences = store.sequences(split, part)
        total = len(sequences)
        if total:
            for place in range(min(count, total)):
                number = (2 * place + 1) * total // (2 * min(count, total))
                start, length = (int(sequences[name].read(number, number + 1)[0]) for name in ("start", "length"))
                yield split, number, start, length
            return


def binned(title: str, axis: str, of: str, values: npt.NDArray[np.generic]) -> Distribution:
    """Histogram with classes of a round width (1, 2 or 5 times a power of ten), labelled by their lower edge."""
    numbers = values.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return Distribution(title, axis, of, (), ())
    low, high = float(numbers.min()), float(numbers.max())
    whole = bool((numbers == np.floor(numbers)).all())
    width = _width(high - low, at_least=1.0 if whole else 0.0)
    first, last = int(np.floor(low / width)), int(np.floor(high / width))
    counts = np.bincount((np.floor(numbers / width) - first).astype(np.int64), minlength=last - first + 1)
    labels = tuple(f"{(first + place) * width:.6g}" for place in range(len(counts)))
    return Distribution(title, axis, of, labels, tuple(counts.tolist()))


def counted(title: str, axis: str, of: str, values: npt.NDArray[np.generic], names: dict[int, str]) -> Distribution:
    """Counts of codes by name, in the order of the codes, without zeros."""
    codes, counts = np.unique(values, return_counts=True)
    labels = tuple(names.get(int(code), str(code)) for code in codes)
    return Distribution(title, axis, of, labels, tuple(counts.tolist()))


def _width(span: float, at_least: float) -> float:
    """The smallest round width that needs at most :data:`MOST_BARS` classes."""
    if span <= 0:
        return at_least or 1.0
    power = 10.0 ** math.floor(math.log10(span / MOST_BARS))
    wide = (step * power for step in (1.0, 2.0, 5.0, 10.0, 20.0))
    return max(at_least, next(width for width in wide if span / width < MOST_BARS))
