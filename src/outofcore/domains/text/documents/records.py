"""Units of whole documents to texts, in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from outofcore.domains.text.documents.cleaning import InvalidText, clean
from outofcore.domains.text.documents.division import division
from outofcore.domains.text.documents.lines import RECORD_BYTES, texts_of_lines
from outofcore.domains.text.documents.long import too_long_or_short
from outofcore.domains.text.params import TextSection
from outofcore.raw.unit import Reject, Unit


@dataclass
class Documents:
    """The documents of a unit, in order."""

    texts: list[bytes] = field(default_factory=list)  # cleaned UTF-8
    offsets: list[int] = field(default_factory=list)  # first byte in the decompressed file, or row of a Parquet file
    rejects: list[Reject] = field(default_factory=list)
    replaced: int = 0  # number of documents with U+FFFD in place of bytes that were not UTF-8
    carriage_returns: int = 0  # CR characters that became LF, or were dropped before one


def read_documents(unit: Unit, section: TextSection) -> Documents:
    """Read the documents of a unit of kind ``text``, ``lines`` or ``values``."""
    documents = Documents()
    source, filters = section.source, section.filters
    for offset, raw in _raw_texts(unit, section):
        if isinstance(raw, Reject):
            documents.rejects.append(raw)
            continue
        text, replaced = raw
        try:
            cleaned = clean(text, source)
        except InvalidText as error:
            detail = f"byte {error.position} of the document"
            documents.rejects.append(Reject(reason="invalid_utf8", offset=offset, detail=detail))
            continue
        reject = too_long_or_short(len(cleaned.text), filters, offset)
        if reject:
            documents.rejects.append(reject)
            continue
        documents.texts.append(cleaned.text)
        documents.offsets.append(offset)
        documents.replaced += replaced or cleaned.replaced
        documents.carriage_returns += cleaned.carriage_returns
    return documents


_Raw = tuple[bytes, bool] | Reject


def _raw_texts(unit: Unit, section: TextSection) -> Iterator[tuple[int, _Raw]]:
    if unit.detail["kind"] == "lines":
        yield from texts_of_lines(unit, section.source)
    elif unit.detail["kind"] == "values":
        yield from _values(unit)
    else:
        divided = division(section.source)
        pieces = divided.split(unit.payload) if divided else [(0, len(unit.payload))]
        for start, stop in pieces:
            yield unit.offset + start, (unit.payload[start:stop], False)


def _values(unit: Unit) -> Iterator[tuple[int, _Raw]]:
    place = 0
    for row, length in enumerate(unit.detail["lengths"].tolist(), unit.offset):
        if length < 0:
            yield row, Reject(reason="no_text", offset=row, detail="null")
        elif length > RECORD_BYTES:
            yield row, Reject(reason="too_large", offset=row, detail=f"a value of {length} bytes")
        else:
            yield row, (unit.payload[place : place + length], False)
        place += max(length, 0)
