"""Documents read in pieces: a first pass over the whole, then pieces cut where the ids allow it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from outofcore.domains.text.documents.utf8 import characters, first_wrong_byte, whole_characters
from outofcore.domains.text.params import FilterSection
from outofcore.domains.text.tokens.cuts import WINDOW_BYTES, Cutter
from outofcore.domains.text.tokens.engine import Engine
from outofcore.raw.unit import KEY_BYTES, Reject

PIECE_BYTES = 2 << 20
"""Approximate size of a piece, which ends at the last safe cut before it, or else at the next one found."""


@dataclass(frozen=True)
class Survey:
    """Result of the first pass over a document."""

    key: bytes
    bytes: int
    characters: int
    cuts: tuple[int, ...]  # starts of its pieces but the first: byte offsets


class PartOfDocument(NamedTuple):
    """A piece of a document that is too long to be read whole."""

    survey: Survey
    before: bytes  # the end of the piece before it
    continues: bool  # a piece comes before it
    unfinished: bool  # another follows


def key_of(text: bytes) -> bytes:
    """The key of a document: the first 16 bytes of the SHA-256 of its text."""
    return hashlib.sha256(text).digest()[:KEY_BYTES]


def invalid(position: int, offset: int) -> Reject:
    """The reject of a document with a wrong byte at a position."""
    return Reject(reason="invalid_utf8", offset=offset, detail=f"byte {position} of the document")


def too_long_or_short(size: int, filters: FilterSection, offset: int) -> Reject | None:
    """The reject of a document with this many bytes, if it is filtered out."""
    if size < filters.min_bytes:
        return Reject(reason="too_short", offset=offset, detail=f"{size} bytes")
    if filters.max_bytes is not None and size > filters.max_bytes:
        return Reject(reason="too_long", offset=offset, detail=f"{size} bytes")
    return None


def survey(
    parts: Iterable[bytes], filters: FilterSection, cutter: Cutter, engine: Engine, offset: int
) -> Survey | Reject:
    """First pass over the parts of a document, in bounded memory; EncodingError where it cannot be encoded."""
    longest = engine.longest
    digest = hashlib.sha256()
    cuts: list[int] = []
    waiting = bytearray()
    size = count = searched = 0
    for block in whole_characters(parts):
        if (wrong := first_wrong_byte(block)) >= 0:
            return invalid(size + wrong, offset)
        digest.update(block)
        size += len(block)
        count += characters(block)
        waiting += block
        while len(waiting) - WINDOW_BYTES > max(PIECE_BYTES, searched):
            high = min(len(waiting) - WINDOW_BYTES, longest) if searched else PIECE_BYTES
            cut = cutter.last(waiting, searched, high)
            if cut is not None:
                cuts.append(size - len(waiting) + cut)
                engine.check(bytes(waiting[:cut]))
                del waiting[:cut]
                searched = 0
            elif high == longest:
                detail = f"{high} bytes from byte {size - len(waiting)} of the document on"
                return Reject(reason="no_safe_cut", offset=offset, detail=detail)
            else:
                searched = high
    reject = too_long_or_short(size, filters, offset)
    if reject is None and len(waiting) > longest:
        detail = f"{len(waiting)} bytes from byte {size - len(waiting)} of the document on"
        reject = Reject(reason="no_safe_cut", offset=offset, detail=detail)
    if reject is None:
        engine.check(bytes(waiting))
    key = digest.digest()[:KEY_BYTES]
    return reject or Survey(key, size, count, tuple(cuts))


def pieces(parts: Iterable[bytes], cuts: tuple[int, ...]) -> Iterator[bytes]:
    """The text of a document, cut as in its survey."""
    waiting = bytearray()
    start = 0
    places = iter((*cuts, None))
    place = next(places)
    for part in parts:
        waiting += part
        while place is not None and start + len(waiting) >= place:
            with memoryview(waiting) as view:
                piece = bytes(view[: place - start])
            del waiting[: place - start]
            yield piece
            start, place = place, next(places)
    yield bytes(waiting)
