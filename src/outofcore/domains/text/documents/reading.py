"""From a raw file to stretches of whole documents: read sequentially, divided at line ends or at a separator."""

from __future__ import annotations

import codecs
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.text.documents.parquet import MOST_DOCUMENTS, grouped, values
from outofcore.domains.text.params import RECORD_BYTES, SourceSection, TextSection
from outofcore.errors import RawInputError
from outofcore.ndarrays import Ints
from outofcore.raw.cutting import MemberText
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import Member, plain_name
from outofcore.raw.streams import read_block
from outofcore.raw.unit import Reject, raw_size

BLOCK_BYTES = 2 << 20
Format = Literal["text", "lines", "values", "json", "nothing"]
TABLES = (".csv", ".tsv", ".feather")
TOKENS = (".bin", ".npy")
TABLE_MARKS = (b"ARROW1", b"PAR1")
COLUMNS = (".parquet", ".arrow")
BOM = b"\xef\xbb\xbf"
_OPENING = re.compile(r"[^\[\s,]")


@dataclass(frozen=True)
class Division:
    """The separator between documents; found from left to right, as in :meth:`bytes.split`."""

    separator: bytes

    def end_of_last(self, buffer: bytes) -> int:
        """End of the last separator in a buffer that begins with a document, or 0."""
        if len(self.separator) == 1:
            return buffer.rfind(self.separator) + 1
        return len(buffer) - len(buffer.split(self.separator)[-1])

    def ends(self, buffer: bytes) -> list[int]:
        """Ends of stretches of at most :data:`MOST_DOCUMENTS` documents, up to the last separator."""
        end = self.end_of_last(buffer)
        if buffer.count(self.separator, 0, end) <= MOST_DOCUMENTS:
            return [end] if end else []
        ends = np.cumsum([len(piece) + len(self.separator) for piece in buffer.split(self.separator)[:-1]])
        return [*ends[MOST_DOCUMENTS - 1 : -1 : MOST_DOCUMENTS].tolist(), end]

    def split(self, buffer: bytes) -> list[tuple[int, int]]:
        """Start and end of each non-empty piece between separators of a whole stretch."""
        pieces, start = [], 0
        for piece in buffer.split(self.separator):
            if piece:
                pieces.append((start, start + len(piece)))
            start += len(piece) + len(self.separator)
        return pieces


LINES = Division(b"\n")


def value_of(record: object, column: str) -> Any:
    """The value at a key, or at the keys between its dots; None if there is none."""
    if not isinstance(record, Mapping):
        return None
    first, _, rest = column.partition(".")
    return value_of(record.get(first), rest) if rest and column not in record else record.get(column)


def division(source: SourceSection, kind: Format = "text") -> Division | None:
    """The division of a ``.txt``, or of lines of JSON, into documents; None if a file is one document."""
    if kind == "lines":
        return LINES
    return None if source.separator is None else Division(source.separator.encode())


class Reader:
    """A stream to which the last bytes read can be returned; ``offset`` counts those of the file."""

    def __init__(self, stream: BinaryIO, encoding: str = "", offset: int = 0) -> None:
        self.offset, self.encoding = offset, encoding
        self._stream = stream
        self._returned = b""
        self._damage: DamagedInput | None = None

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; b"" only at the end. Damage is raised by the call after the last bytes before it."""
        block, self._returned = self._returned[:size], self._returned[size:]
        if not block and self._damage is None:
            block, self._damage = read_block(self._stream, size)
        if not block and self._damage is not None:
            raise self._damage
        self.offset += raw_size(block, self.encoding)
        return block

    def give_back(self, block: bytes) -> None:
        """Return the bytes that were read last, to be read again."""
        self._returned = block + self._returned
        self.offset -= raw_size(block, self.encoding)

    def skip(self, separator: bytes) -> int:
        """Pass over the record that begins here, and the separator after it; returns its bytes."""
        size, waiting = 0, b""
        while fresh := self.read(BLOCK_BYTES):
            record, end, rest = (waiting + fresh).partition(separator) if separator else (waiting + fresh, b"", b"")
            if end:
                self.give_back(rest)
                return size + len(record)
            waiting = record[max(0, len(record) - len(separator) + 1) :] if separator else b""  # may begin a separator
            size += len(record) - len(waiting)
        return size + len(waiting)


def line_end(text: bytes, least: int, most: int) -> int:
    """The last place in ``least < place <= most`` where a text is best divided.

    After a blank line, else after the end of a line, else before a space, else between two characters.
    """
    for marks in ((b"\n\n", b"\n\r\n"), (b"\n",), (b" ",)):
        places = [(place, mark) for mark in marks if (place := text.rfind(mark, least, most)) > least]
        if places:
            place, mark = max(places)
            return place if mark == b" " else place + len(mark)
    while most > least + 1 and text[most : most + 1] and text[most] & 0xC0 == 0x80:
        most -= 1
    return most


def parts_of(text: bytes, limit: int) -> list[tuple[int, int]]:
    """Start and stop of the documents of at most ``limit`` bytes into which a text is divided, from its start on."""
    stops = [0]
    while len(text) - stops[-1] > limit:
        stops.append(line_end(text, stops[-1] + limit // 2, stops[-1] + limit))
    return list(pairwise([*stops, len(text)]))


class Contents(NamedTuple):
    """What a stretch of a unit holds; the detail of one that could not be read is None."""

    kind: Format  # of its documents
    marks: int = 0  # byte-order marks that were dropped before it
    lengths: Ints | None = None  # of values
    continues: bool = False  # whether its first document is of a text that began in the stretch before


NOTHING = Contents("nothing")


Values = tuple[int, bytes, npt.NDArray[np.int64]]
"""Number of the first value, the values one after the other, and the length of each, -1 where there is none."""


@dataclass(frozen=True)
class RecordsMember(Member):
    """Documents that are in no file, instead of a stream."""

    values: Iterator[Values]


def values_of(texts: Iterable[bytes | None]) -> Iterator[Values]:
    """Texts, about two megabytes at a time."""
    first = 0
    for group in grouped(texts, lambda text: (1 + len(text or b""), 1)):
        lengths = np.array([-1 if text is None else len(text) for text in group], np.int64)
        yield first, b"".join(filter(None, group)), lengths
        first += len(group)


def texts_of_array(reader: Reader, column: str) -> Iterator[bytes | None]:
    """The texts of a JSON array of objects, of which one at most is in memory; None for one without.

    Raises DamagedInput where it is no JSON, an object is too long, or the first lacks the column.
    """
    decode, utf8 = json.JSONDecoder().raw_decode, codecs.getincrementaldecoder("utf-8")("surrogateescape")
    waiting, place, first = "", 0, True
    while fresh := reader.read(BLOCK_BYTES):
        waiting, place = waiting[place:] + utf8.decode(fresh), 0
        while (opening := _OPENING.search(waiting, place)) and opening.group() != "]":
            try:
                record, place = decode(waiting, opening.start())
            except (ValueError, RecursionError) as error:
                if isinstance(error, ValueError) and len(waiting) - opening.start() <= RECORD_BYTES:
                    break  # its end was not read yet
                raise DamagedInput(f"expected an array of objects in JSON, {error}") from error
            text = value_of(record, column)
            if first and text is None:
                raise DamagedInput(no_column(record, column), "no_column")
            first = False
            yield text.encode("utf-8", "surrogatepass") if isinstance(text, str) else None
    if waiting[place:].strip("[, \t\r\n") != "]":
        raise DamagedInput(f"expected an array of objects in JSON, it ends with {waiting[place:][:40]!r}")


def no_column(record: object, column: str) -> str:
    """That a record lacks its text, and which keys it has."""
    keys = reprlib.repr(record)
    if isinstance(record, Mapping):
        keys = ", ".join(f"{key} ({type(value).__name__})" for key, value in record.items())[:200]
    return f"expected a string {column!r} (source.text_column), got {keys}"


class OpenMember:
    """A member of a raw file."""

    def __init__(self, text: MemberText, section: TextSection) -> None:
        self._member = member = text.opened
        self._source = source = section.source
        self._most = section.filters.max_bytes
        self.marks = 0
        self.division: Division | None = None
        self.reader = Reader(text.stream, text.encoding, text.offset)
        if isinstance(member, RecordsMember) or plain_name(member.name).lower().endswith(COLUMNS):
            self.kind: Format = "values"
            self._values = member.values if isinstance(member, RecordsMember) else values(member, source.text_column)
            return
        self._values = values_of(texts_of_array(self.reader, source.text_column))
        head = self.reader.read(BLOCK_BYTES).removeprefix(BOM)
        self.kind = self._kind(head)
        self.division = division(source, self.kind)
        # In JSON a byte-order mark is never text, and one of UTF-16 is not read.
        self.marks = int(self.reader.offset > raw_size(head, self.reader.encoding))
        self.reader.give_back(head)

    def _kind(self, head: bytes) -> Format:
        """The kind of a file, by its name where that tells it, else by its beginning."""
        name = plain_name(self._member.name).lower()
        if name.endswith((".jsonl", ".ndjson")):
            return "lines"
        if name.endswith(".txt"):
            return "text"
        if name.endswith(TABLES) or head.startswith(TABLE_MARKS):
            raise RawInputError(
                f"text.raw: {self._member.name} is a table; save it as .parquet, or a document per line as .jsonl"
            )
        if name.endswith(TOKENS):
            message = f"text.raw: {self._member.name} is no text; tokens in a file are read as they are: "
            message += f'outofcore.open_tokens("{self._member.name}", "uint16")'
            raise RawInputError(message)
        line, end, _ = head.lstrip().partition(b"\n")
        line = line.strip()
        is_object = line.startswith(b"{") and (line.endswith(b"}") or not end)
        if name.endswith(".json"):
            return "values" if line.startswith(b"[") else "lines" if is_object or not line else "json"
        column = self._source.text_column
        has_text = is_object and any(f'"{key}"'.encode() in line for key in (column, column.split(".")[-1]))
        return "lines" if has_text else "text"

    def documents(self) -> Iterator[tuple[int, bytes | Reject, Contents]]:
        """Consecutive whole documents, about two megabytes at a time: offset, bytes, and what they are.

        The offset is that of the first byte, in Parquet that of the first row. A plain text that is too long comes in
        several documents. One that is not read is a reject. Byte-order marks count with the first.
        """
        marks = self.marks
        for offset, payload, lengths, continues in self._documents():
            yield offset, payload, Contents(self.kind, marks, lengths, continues)
            marks = 0

    def _documents(self) -> Iterator[tuple[int, bytes | Reject, Ints | None, bool]]:
        if self.kind == "values":
            for row, texts, lengths in self._values:
                yield row, texts, lengths, False
            return
        if self.kind == "json":
            detail = "JSON, but neither a document per line nor an array of them"
            yield 0, Reject(reason="not_json_lines", offset=0, detail=detail), None, False
            return
        reader, separator = self.reader, self.division.separator if self.division else b""
        limit, most = self._source.longest_document, RECORD_BYTES if self.kind == "lines" else self._most
        waiting, start, continues = b"", reader.offset, False
        while fresh := reader.read(BLOCK_BYTES):
            waiting += fresh
            begin, offset = 0, reader.offset - raw_size(waiting, reader.encoding)
            for end in self.division.ends(waiting) if self.division else ():
                yield offset, waiting[begin:end], None, continues
                begin, offset, continues = end, offset + raw_size(waiting[begin:end], reader.encoding), False
            waiting = waiting[begin:]
            # A separator may begin before the limit and end behind it.
            while most is None and len(waiting) > limit + len(separator):
                _, end = parts_of(waiting, limit)[0]
                yield reader.offset - raw_size(waiting, reader.encoding), waiting[:end], None, continues
                waiting, continues = waiting[end:], True
            if most is not None and len(waiting) > most + len(separator):
                reader.give_back(waiting)
                waiting, offset = b"", reader.offset
                size = reader.skip(separator)
                reason, what = ("too_large", "a line of ") if self.kind == "lines" else ("too_long", "")
                yield offset, Reject(reason=reason, offset=offset, detail=f"{what}{size} bytes"), None, False
        # An empty file is an empty document.
        if waiting or (self.division is None and reader.offset == start):
            yield reader.offset - raw_size(waiting, reader.encoding), waiting, None, continues


def first_wrong_byte(raw: bytes) -> int:
    """Where bytes stop being UTF-8, -1 if they do not."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -1
