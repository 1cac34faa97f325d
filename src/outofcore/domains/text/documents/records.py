"""Units of whole documents to texts, in a worker: plain text, lines of JSON, values of Parquet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json

from outofcore.domains.text.by_place import Edge, is_copy, pieces_of
from outofcore.domains.text.documents.reading import (
    LINES,
    NOTHING,
    Contents,
    division,
    first_wrong_byte,
    no_column,
    parts_of,
    value_of,
)
from outofcore.domains.text.params import RECORD_BYTES, FilterSection, TextSection
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import KEY_BYTES, Reject, Stretch, Unit, raw_size

# Below this many bytes, building a table does not pay off.
_TABLE_BYTES = 4096


@dataclass
class Documents:
    """The documents of a unit, in order."""

    texts: list[bytes] = field(default_factory=list)  # UTF-8
    offsets: list[int] = field(default_factory=list)  # first byte in the decompressed file, or row of a Parquet file
    files: list[int] = field(default_factory=list)  # each one's, as an index into the unit's
    starts: list[int] = field(default_factory=list)  # each one's first byte in the text of its record
    splits: list[str] = field(default_factory=list)  # each one's, where they are split by place
    rejects: list[Reject] = field(default_factory=list)
    divisions: int = 0  # of texts into documents

    def reject(self, reason: str, why: Mapping[int, str]) -> npt.NDArray[np.bool_]:
        """Reject documents by their number, each with its detail; returns which are kept."""
        kept = np.ones(len(self.texts), bool)
        for number, detail in why.items():
            kept[number] = False
            offset, file = self.offsets[number], self.files[number]
            self.rejects.append(Reject(reason=reason, offset=offset, detail=detail, file=file))
        for name in ("texts", "offsets", "files", "starts", "splits"):
            setattr(self, name, list(compress(getattr(self, name), kept)))
        return kept


def keys_of(texts: Sequence[bytes]) -> Bytes:
    """The key of each document: the first 16 bytes of the SHA-256 of its text, (documents, 16)."""
    joined = b"".join(hashlib.sha256(text).digest()[:KEY_BYTES] for text in texts)
    return np.frombuffer(joined, np.uint8).reshape(-1, KEY_BYTES)


def read_documents(unit: Unit, section: TextSection) -> Documents:
    """Read the documents of a unit; longer texts are divided, and those that the unit's ``edges`` divide."""
    documents = Documents()
    edges: tuple[Edge, ...] | None = unit.detail.get("edges")
    for file, stretch in enumerate(unit.stretches):
        contents: Contents = stretch.detail or NOTHING
        documents.divisions += contents.continues
        for offset, text in raw_texts(unit.payload, stretch, section):
            rest = contents.continues and offset == stretch.offset
            text = _filtered(text, offset, section.filters, rest=rest) if isinstance(text, bytes) else text
            if isinstance(text, Reject):
                documents.rejects.append(replace(text, file=file))
                continue
            for start, stop in parts_of(text, section.source.longest_document):
                part, place = text[start:stop], (stretch.source, stretch.member, offset, start)
                documents.divisions += start > 0
                pieces = [(0, len(part), "")] if edges is None else list(pieces_of(part, place, edges))
                documents.divisions += len(pieces) - 1
                for first, last, split in pieces:
                    before = 0 if contents.kind == "values" else raw_size(text[: start + first], stretch.encoding)
                    if edges and is_copy(part, place, edges):
                        documents.rejects.append(Reject(reason="duplicate", offset=offset + before, file=file))
                        continue
                    documents.texts.append(part[first:last])
                    documents.offsets.append(offset + before)
                    documents.starts.append(start + first)
                    documents.files.append(file)
                    documents.splits += [split] if split else []
    return documents


def part_of_record(unit: Unit, section: TextSection, place: tuple[int, int], size: int | None) -> bytes | None:
    """The document of ``size`` bytes at a member and an offset, if it is a part of the text of its record."""
    member, offset = place
    begin, text, stretch = max(
        (
            (begin, text, stretch)
            for stretch in unit.stretches
            if stretch.member == member
            for begin, text in raw_texts(unit.payload, stretch, section)
            if begin <= offset and isinstance(text, bytes)
        ),
        key=itemgetter(0),
    )
    if size == len(text) or stretch.detail.kind == "values":  # whose parts are all at their row
        return None
    encoding = stretch.encoding or "utf-8"
    return text.decode().encode(encoding)[offset - begin :].decode(encoding).encode()[:size]


def _filtered(text: bytes, offset: int, filters: FilterSection, *, rest: bool) -> bytes | Reject:
    """A text, or why it is not kept; the ``rest`` of one that was divided is not too short."""
    if (wrong := first_wrong_byte(text)) >= 0:
        return Reject(reason="invalid_utf8", offset=offset, detail=f"byte {wrong} of the document")
    if len(text) < filters.min_bytes and not rest:
        return Reject(reason="too_short", offset=offset, detail=f"{len(text)} bytes")
    if filters.max_bytes is not None and len(text) > filters.max_bytes:
        return Reject(reason="too_long", offset=offset, detail=f"{len(text)} bytes")
    return text


def raw_texts(payload: bytes, stretch: Stretch, section: TextSection) -> Iterator[tuple[int, bytes | Reject]]:
    """Offset of each document of a stretch before it is divided, and its text or its reject."""
    contents: Contents = stretch.detail or NOTHING
    content = payload[stretch.start : stretch.stop]
    if contents.kind == "lines":
        yield from texts_of_lines(payload, stretch, section.source.text_column)
    elif contents.kind == "values":
        assert contents.lengths is not None
        yield from _values(content, stretch.offset, contents.lengths.tolist())
    elif contents.kind == "text":
        divided = division(section.source)
        pieces = divided.split(content) if divided else [(0, len(content))]
        offsets = stretch.offsets(payload, stretch.start + np.array([start for start, _ in pieces], np.int64))
        for (start, stop), offset in zip(pieces, offsets.tolist(), strict=True):
            yield offset, content[start:stop]


def _values(content: bytes, first: int, lengths: Sequence[int]) -> Iterator[tuple[int, bytes | Reject]]:
    start = 0
    for row, length in enumerate(lengths, first):
        if length < 0:
            yield row, Reject(reason="no_text", offset=row, detail="null")
        elif length > RECORD_BYTES:
            yield row, Reject(reason="too_large", offset=row, detail=f"a value of {length} bytes")
        else:
            yield row, content[start : start + length]
        start += max(length, 0)


def texts_of_lines(payload: bytes, stretch: Stretch, column: str) -> Iterator[tuple[int, bytes | Reject]]:
    """Offset of each line that is not blank, and its text or its reject."""
    own = payload[stretch.start : stretch.stop]
    starts, stops = np.array(LINES.split(own), np.int64).reshape(-1, 2).T
    texts = _as_table(own, column, starts, stops) if len(own) > _TABLE_BYTES and "." not in column else None
    offsets = stretch.offsets(payload, stretch.start + starts).tolist()
    if texts is not None:
        yield from zip(offsets, texts, strict=True)
        return
    for offset, start, stop in zip(offsets, starts.tolist(), stops.tolist(), strict=True):
        line = own[start:stop]
        if not line.isspace():
            yield offset, _text_of(line, column, offset)


def _as_table(payload: bytes, column: str, starts: Ints, stops: Ints) -> list[bytes] | None:
    """The texts, if every line is an object with a text that Arrow can read; else None.

    If each line begins with ``{`` and ends with ``}`` (and perhaps a CR), and there are as many objects as lines, each
    line is one object. Arrow rejects invalid JSON, non-string columns and duplicate keys, but does not check UTF-8,
    which is done here.
    """
    data = np.frombuffer(payload, np.uint8)
    ends = stops - 1
    ends = ends - (data[ends] == ord("\r"))
    plain = (data[starts] == ord("{")) & (data[ends] == ord("}")) & (stops - starts <= RECORD_BYTES)
    if not plain.all() or not len(starts) or first_wrong_byte(payload) >= 0:
        return None
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(payload),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(payload) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([(column, pa.large_string())]), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException:
        return None
    texts = table[column].combine_chunks()
    if len(texts) != len(starts) or texts.null_count:
        return None
    listed: list[bytes] = texts.cast(pa.large_binary()).to_pylist()
    return listed


def _text_of(line: bytes, column: str, offset: int) -> bytes | Reject:
    """The text of one line."""
    if len(line) > RECORD_BYTES:
        return Reject(reason="too_large", offset=offset, detail=f"a line of {len(line)} bytes")
    try:
        record: Any = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return Reject(reason="invalid_utf8", offset=offset, detail=f"byte {error.start} of the line")
    except (ValueError, RecursionError) as error:
        return Reject(reason="not_json", offset=offset, detail=str(error))
    text = value_of(record, column)
    if not isinstance(text, str):
        return Reject(reason="no_text", offset=offset, detail=no_column(record, column))
    try:
        return text.encode()
    except UnicodeEncodeError:  # two halves that make a pair were joined by the parser
        return Reject(reason="invalid_utf8", offset=offset, detail="an escaped half of a surrogate pair")
