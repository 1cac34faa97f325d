"""Text split by place: val and test are its last parts, cut at the end of a line, in text without whole copies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from outofcore.domains.splits import SPLITS
from outofcore.domains.text.documents.reading import line_end
from outofcore.raw.unit import KEY_BYTES

EDGE_BYTES = 16 << 10
"""A split ends at the end of a line within this many bytes."""
LEAST_LINE, MOST_LINES = 24, 1 << 16
"""Bytes of the shortest line that is compared, and lines of a sample."""

Place = tuple[int, int, int, int]
"""Raw file, member and offset of a record, and a byte of its text, where it is divided."""


class Edge(NamedTuple):
    """Where val or test begins: ``start`` bytes into a document."""

    place: Place
    start: int
    size: int  # bytes of the document
    key: bytes


def is_copy(text: bytes, place: Place, edges: Sequence[Edge]) -> bool:
    """Whether a document is a copy of one that an edge divides: the parts of that have other keys than the copy."""
    return any(
        len(text) == edge.size and place != edge.place and hashlib.sha256(text).digest()[:KEY_BYTES] == edge.key
        for edge in edges
    )


def pieces_of(text: bytes, place: Place, edges: Sequence[Edge]) -> Iterator[tuple[int, int, str]]:
    """Start, stop and split of the parts into which edges divide a document."""
    begin, split = 0, sum(edge.place < place for edge in edges)
    for edge in edges:
        if edge.place == place:
            stop = line_end(text, max(0, edge.start - EDGE_BYTES), edge.start) if edge.start else 0
            if stop > begin:
                yield begin, stop, SPLITS[split]
            begin, split = stop, split + 1
    if begin < len(text):
        yield begin, len(text), SPLITS[split]


class SampledLines:
    """Lines of documents, chosen by their content, with the first and the last place of each: (document, byte)."""

    def __init__(self) -> None:
        self._one_in = 1
        self._lines: dict[tuple[int, int], tuple[tuple[int, int], tuple[int, int]]] = {}

    def add(self, number: int, text: bytes) -> None:
        """Look at the lines of a document; numbers ascend."""
        start = 0
        for line in text.split(b"\n"):
            key, place = (crc32(line), len(line)), (number, start)
            if len(line) >= LEAST_LINE and key[0] % self._one_in == 0:
                self._lines[key] = self._lines.get(key, (place, place))[0], place
            start += len(line) + 1
        while len(self._lines) > MOST_LINES:
            self._one_in *= 2
            self._lines = {key: places for key, places in self._lines.items() if key[0] % self._one_in == 0}

    def held_out(self, edge: tuple[int, int], new: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """How many lines are in documents that are ``new`` from an edge on, and how many of them before it too."""
        before = [first < edge for first, last in self._lines.values() if last >= edge and new[last[0]]]
        return len(before), sum(before)
