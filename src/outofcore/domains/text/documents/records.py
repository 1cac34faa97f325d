"""Units of whole documents to texts, in a worker: plain text, lines of JSON, values of Parquet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json

from outofcore.domains.sections import SplitSection
from outofcore.domains.splits import SPLITS
from outofcore.domains.text.documents.reading import (
    NOTHING,
    RECORD_BYTES,
    Contents,
    division,
    first_wrong_byte,
    line_end,
    parts_of,
    value_of,
)
from outofcore.domains.text.params import FilterSection, TextSection
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import KEY_BYTES, Reject, Stretch, Unit, raw_size

# Below this many bytes, building a table does not pay off.
_TABLE_BYTES = 4096
# A split by place ends at the end of a line within this many bytes.
EDGE_BYTES = 16 << 10


@dataclass
class Documents:
    """The documents of a unit, in order."""

    texts: list[bytes] = field(default_factory=list)  # UTF-8
    offsets: list[int] = field(default_factory=list)  # first byte in the decompressed file, or row of a Parquet file
    files: list[int] = field(default_factory=list)  # each one's, as an index into the unit's
    splits: list[str] = field(default_factory=list)  # each one's, where they are split by place
    rejects: list[Reject] = field(default_factory=list)
    divisions: int = 0  # of texts into documents

    def keep(self, kept: npt.NDArray[np.bool_]) -> None:
        """Leave out the others."""
        for name in ("texts", "offsets", "files", "splits"):
            setattr(self, name, list(compress(getattr(self, name), kept)))


Span = tuple[int, int]
"""Start and stop, in bytes."""


def keys_of(texts: Sequence[bytes]) -> Bytes:
    """The key of each document: the first 16 bytes of the SHA-256 of its text, (documents, 16)."""
    joined = b"".join(hashlib.sha256(text).digest()[:KEY_BYTES] for text in texts)
    return np.frombuffer(joined, np.uint8).reshape(-1, KEY_BYTES)


def read_documents(unit: Unit, section: TextSection) -> Documents:
    """Read the documents of a unit; longer texts are divided."""
    documents = Documents()
    for file, stretch in enumerate(unit.stretches):
        contents: Contents = stretch.detail or NOTHING
        documents.divisions += contents.divided
        for offset, span, text in _raw_texts(unit.payload, stretch, contents, section):
            if not isinstance(text, Reject) and (wrong := first_wrong_byte(text)) >= 0:
                text = Reject(reason="invalid_utf8", offset=offset, detail=f"byte {wrong} of the document")
            if isinstance(text, Reject):
                documents.rejects.append(replace(text, file=file))
                continue
            parts = [(part, "") for part in parts_of(text, section.source.longest_document)]
            if "place" in unit.detail:
                parts = list(_by_place(text, parts, span, unit.detail["place"], section.splits))
            documents.divisions += len(parts) - 1
            for (start, stop), split in parts:
                place = offset + (raw_size(text[:start], stretch.encoding) if contents.kind == "text" else 0)
                if reject := _filtered(stop - start, place, section.filters):
                    documents.rejects.append(replace(reject, file=file))
                    continue
                documents.texts.append(text[start:stop])
                documents.offsets.append(place)
                documents.files.append(file)
                documents.splits += [split] if split else []
    return documents


def _by_place(
    text: bytes, parts: Sequence[tuple[Span, str]], span: Span, place: tuple[int, int], splits: SplitSection
) -> Iterator[tuple[Span, str]]:
    """The parts of a text, divided where a split ends, each with its split.

    ``span`` is what the text takes of the unit's payload, ``place`` the bytes before the unit and those of all.
    """
    before, total = place
    _, val, test = splits.expected
    edges = [round(total * (1 - val - test)), round(total * (1 - test))]
    size = max(1, span[1] - span[0])
    for (start, stop), _ in parts:
        # Of a record the payload has more than the text: edges are moved in proportion.
        first, last = (before + span[0] + at * size / max(1, len(text)) for at in (start, stop))
        split, begin = sum(edge <= first for edge in edges), start
        for edge in sorted(set(edges)):
            if first < edge < last:
                at = start + int((edge - first) / (last - first) * (stop - start))
                at = line_end(text, max(begin, at - EDGE_BYTES), at) if at > begin else begin
                if at > begin:
                    yield (begin, at), SPLITS[split]
                split, begin = sum(other <= edge for other in edges), at
        if begin < stop or start == stop:
            yield (begin, stop), SPLITS[split]


def _filtered(size: int, offset: int, filters: FilterSection) -> Reject | None:
    if size < filters.min_bytes:
        return Reject(reason="too_short", offset=offset, detail=f"{size} bytes")
    if filters.max_bytes is not None and size > filters.max_bytes:
        return Reject(reason="too_long", offset=offset, detail=f"{size} bytes")
    return None


def _raw_texts(
    payload: bytes, stretch: Stretch, contents: Contents, section: TextSection
) -> Iterator[tuple[int, Span, bytes | Reject]]:
    """Offset of each document of a stretch, what it takes of the payload, and its text or its reject."""
    own = payload[stretch.start : stretch.stop]
    if contents.kind == "lines":
        yield from texts_of_lines(payload, stretch, section.source.text_column)
    elif contents.kind == "values":
        assert contents.lengths is not None
        yield from _values(payload, stretch, contents.lengths.tolist())
    elif contents.kind == "text":
        divided = division(section.source)
        pieces = divided.split(own) if divided else [(0, len(own))]
        offsets = stretch.offsets(payload, stretch.start + np.array([start for start, _ in pieces], np.int64))
        for (start, stop), offset in zip(pieces, offsets.tolist(), strict=True):
            yield offset, (stretch.start + start, stretch.start + stop), own[start:stop]


def _values(payload: bytes, stretch: Stretch, lengths: Sequence[int]) -> Iterator[tuple[int, Span, bytes | Reject]]:
    place = stretch.start
    for row, length in enumerate(lengths, stretch.offset):
        span = place, place + max(length, 0)
        if length < 0:
            yield row, span, Reject(reason="no_text", offset=row, detail="null")
        elif length > RECORD_BYTES:
            yield row, span, Reject(reason="too_large", offset=row, detail=f"a value of {length} bytes")
        else:
            yield row, span, payload[slice(*span)]
        place = span[1]


def texts_of_lines(payload: bytes, stretch: Stretch, column: str) -> Iterator[tuple[int, Span, bytes | Reject]]:
    """Offset of each line that is not blank, its place in the payload, and its text or its reject."""
    own = payload[stretch.start : stretch.stop]
    starts, stops = _line_bounds(own)
    texts = _as_table(own, column, starts, stops) if len(own) > _TABLE_BYTES and "." not in column else None
    offsets = stretch.offsets(payload, stretch.start + starts).tolist()
    spans = list(zip((stretch.start + starts).tolist(), (stretch.start + stops).tolist(), strict=True))
    if texts is not None:
        yield from zip(offsets, spans, texts, strict=True)
        return
    for offset, span in zip(offsets, spans, strict=True):
        line = payload[slice(*span)]
        if not line.isspace():
            yield offset, span, _text_of(line, column, offset)


def _line_bounds(payload: bytes) -> tuple[Ints, Ints]:
    """Start and stop of each non-empty line."""
    stops = np.flatnonzero(np.frombuffer(payload, np.uint8) == ord("\n"))
    if not payload.endswith(b"\n"):
        stops = np.append(stops, len(payload))
    starts = np.concatenate([[0], stops[:-1] + 1])
    filled = stops > starts
    return starts[filled], stops[filled]


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
        return Reject(reason="no_text", offset=offset, detail=f"no string {column!r}")
    try:
        return text.encode()
    except UnicodeEncodeError:  # two halves that make a pair were joined by the parser
        return Reject(reason="invalid_utf8", offset=offset, detail="an escaped half of a surrogate pair")
