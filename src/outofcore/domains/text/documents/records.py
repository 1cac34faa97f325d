"""Units of whole documents to texts, in a worker: plain text, lines of JSON, values of Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json

from outofcore.domains.text.documents.long import invalid, too_long_or_short
from outofcore.domains.text.documents.reading import NOTHING, RECORD_BYTES, Contents, division, value_of
from outofcore.domains.text.documents.utf8 import first_wrong_byte
from outofcore.domains.text.params import FilterSection, TextSection
from outofcore.raw.unit import Reject, Stretch, Unit

# Below this many bytes, building a table does not pay off.
_TABLE_BYTES = 4096


@dataclass
class Documents:
    """The documents of a unit, in order."""

    texts: list[bytes] = field(default_factory=list)  # UTF-8
    offsets: list[int] = field(default_factory=list)  # first byte in the decompressed file, or row of a Parquet file
    files: list[int] = field(default_factory=list)  # each one's, as an index into the unit's
    rejects: list[Reject] = field(default_factory=list)


def read_documents(unit: Unit, section: TextSection) -> Documents:
    """Read the whole documents of a unit."""
    documents = Documents()
    for file, stretch in enumerate(unit.stretches):
        for offset, raw in _raw_texts(unit.payload, stretch, section):
            found = raw if isinstance(raw, Reject) else _checked(raw, offset, section.filters)
            if isinstance(found, Reject):
                documents.rejects.append(replace(found, file=file))
                continue
            documents.texts.append(found)
            documents.offsets.append(offset)
            documents.files.append(file)
    return documents


def _checked(text: bytes, offset: int, filters: FilterSection) -> bytes | Reject:
    if (wrong := first_wrong_byte(text)) >= 0:
        return invalid(wrong, offset)
    return too_long_or_short(len(text), filters, offset) or text


def _raw_texts(payload: bytes, stretch: Stretch, section: TextSection) -> Iterator[tuple[int, bytes | Reject]]:
    """Offset of each document of a stretch, with its text or its reject."""
    contents: Contents = stretch.detail or NOTHING
    own = payload[stretch.start : stretch.stop]
    if contents.kind == "lines":
        yield from texts_of_lines(payload, stretch, section.source.text_column)
    elif contents.kind == "values":
        assert contents.lengths is not None
        yield from _values(own, contents.lengths.tolist(), stretch.offset)
    elif contents.kind == "text":
        divided = division(section.source)
        pieces = divided.split(own) if divided else [(0, len(own))]
        offsets = stretch.offsets(payload, stretch.start + np.array([start for start, _ in pieces], np.int64))
        for (start, stop), offset in zip(pieces, offsets.tolist(), strict=True):
            yield offset, own[start:stop]


def _values(payload: bytes, lengths: Sequence[int], first: int) -> Iterator[tuple[int, bytes | Reject]]:
    place = 0
    for row, length in enumerate(lengths, first):
        if length < 0:
            yield row, Reject(reason="no_text", offset=row, detail="null")
        elif length > RECORD_BYTES:
            yield row, Reject(reason="too_large", offset=row, detail=f"a value of {length} bytes")
        else:
            yield row, payload[place : place + length]
        place += max(length, 0)


def texts_of_lines(payload: bytes, stretch: Stretch, column: str) -> Iterator[tuple[int, bytes | Reject]]:
    """Offset of each line that is not blank, with its text or its reject."""
    own = payload[stretch.start : stretch.stop]
    starts, stops = _line_bounds(own)
    texts = _as_table(own, column, starts, stops) if len(own) > _TABLE_BYTES and "." not in column else None
    offsets = stretch.offsets(payload, stretch.start + starts).tolist()
    if texts is not None:
        yield from zip(offsets, texts, strict=True)
        return
    for offset, start, stop in zip(offsets, starts.tolist(), stops.tolist(), strict=True):
        line = own[start:stop]
        if not line.isspace():
            yield offset, _text_of(line, column, offset)


def _line_bounds(payload: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Start and stop of each non-empty line."""
    stops = np.flatnonzero(np.frombuffer(payload, np.uint8) == ord("\n"))
    if not payload.endswith(b"\n"):
        stops = np.append(stops, len(payload))
    starts = np.concatenate([[0], stops[:-1] + 1])
    filled = stops > starts
    return starts[filled], stops[filled]


def _as_table(
    payload: bytes, column: str, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> list[bytes] | None:
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
