"""Documents that are read in pieces: a first look at the whole, then the pieces, cut where the ids allow it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from outofcore.domains.text.documents.cleaning import InvalidText, blocks, characters, clean
from outofcore.domains.text.params import FilterSection, SourceSection
from outofcore.domains.text.tokens.cuts import WINDOW_BYTES, Cutter
from outofcore.raw.unit import KEY_BYTES, Reject

PIECE_BYTES = 2 << 20
"""What a piece holds, about; it ends with the last safe cut before, or failing that with the last one found later."""


@dataclass(frozen=True)
class Survey:
    """What a first look at a document finds.

    Attributes
    ----------
    key
        Hash of its text, as of any document.
    bytes, characters
        Of its cleaned text.
    cuts
        Where its pieces begin, but for the first: byte offsets in the cleaned text.
    replaced, carriage_returns
        As of :class:`outofcore.domains.text.documents.cleaning.Cleaned`.
    """

    key: bytes
    bytes: int
    characters: int
    cuts: tuple[int, ...]
    replaced: bool
    carriage_returns: int


def key_of(text: bytes) -> bytes:
    """The key of a document: the first 16 bytes of the SHA-256 of its text."""
    return hashlib.sha256(text).digest()[:KEY_BYTES]


def too_long_or_short(size: int, filters: FilterSection, offset: int) -> Reject | None:
    """The reject of a document whose text has so many bytes, if it is one."""
    if size < filters.min_bytes:
        return Reject(reason="too_short", offset=offset, detail=f"{size} bytes")
    if filters.max_bytes is not None and size > filters.max_bytes:
        return Reject(reason="too_long", offset=offset, detail=f"{size} bytes")
    return None


def survey(
    parts: Iterable[bytes], source: SourceSection, filters: FilterSection, cutter: Cutter, longest: int, offset: int
) -> Survey | Reject:
    """Look at a document from front to back, in bounded memory.

    Parameters
    ----------
    parts
        Its raw bytes.
    source, filters
        Policies.
    cutter
        Finds safe cuts.
    longest
        Bytes that may follow each other without a safe cut.
    offset
        Where it begins, for the reject.
    """
    digest = hashlib.sha256()
    cuts: list[int] = []
    waiting = bytearray()
    size = count = seen = returns = searched = 0
    replaced = False
    for block in blocks(parts):
        try:
            cleaned = clean(block, source)
        except InvalidText as error:
            return Reject(reason="invalid_utf8", offset=offset, detail=f"byte {seen + error.position} of the document")
        seen += len(block)
        digest.update(cleaned.text)
        size += len(cleaned.text)
        count += characters(cleaned.text)
        returns += cleaned.carriage_returns
        replaced |= cleaned.replaced
        waiting += cleaned.text
        while len(waiting) - WINDOW_BYTES > max(PIECE_BYTES, searched):
            high = min(len(waiting) - WINDOW_BYTES, longest) if searched else PIECE_BYTES
            cut = cutter.last(waiting, searched, high)
            if cut is not None:
                cuts.append(size - len(waiting) + cut)
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
    key = digest.digest()[:KEY_BYTES]
    return reject or Survey(key, size, count, tuple(cuts), replaced, returns)


def pieces(parts: Iterable[bytes], source: SourceSection, cuts: tuple[int, ...]) -> Iterator[bytes]:
    """The cleaned text of a document, cut as its survey says."""
    waiting = bytearray()
    start = 0
    places = iter((*cuts, None))
    place = next(places)
    for block in blocks(parts):
        waiting += clean(block, source).text
        while place is not None and start + len(waiting) >= place:
            with memoryview(waiting) as view:
                piece = bytes(view[: place - start])
            del waiting[: place - start]
            yield piece
            start, place = place, next(places)
    yield bytes(waiting)
