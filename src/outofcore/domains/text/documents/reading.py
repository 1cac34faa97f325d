"""From a raw file to stretches of whole documents: read sequentially, divided at line ends or at a separator."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from outofcore.domains.text.documents.long import PartOfDocument
from outofcore.domains.text.documents.parquet import values
from outofcore.domains.text.documents.utf8 import BOM
from outofcore.domains.text.params import SourceSection
from outofcore.errors import RawInputError
from outofcore.raw.blocks import read_block
from outofcore.raw.cutting import MemberText
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import Member, RawFile, plain_name
from outofcore.raw.streams import transcoded
from outofcore.raw.unit import raw_size

BLOCK_BYTES = 2 << 20
WHOLE_BYTES = 4 << 20
"""A plain text up to this many raw bytes is read whole; a longer one is surveyed first, then read in pieces."""
RECORD_BYTES = 16 << 20
"""Bytes of the longest line of JSON and the longest value of Parquet; they are never read in pieces."""

Format = Literal["text", "lines", "values", "json", "nothing"]
TABLES = (".csv", ".tsv", ".feather")
TOKENS = (".bin", ".npy")
TABLE_MARKS = (b"ARROW1", b"PAR1")
COLUMNS = (".parquet", ".arrow")


@dataclass(frozen=True)
class Division:
    """The separator between documents; found from left to right, as in :meth:`bytes.split`."""

    separator: bytes

    def end_of_last(self, buffer: bytes) -> int:
        """End of the last separator in a buffer that begins with a document, or 0."""
        if len(self.separator) == 1:
            return buffer.rfind(self.separator) + 1
        return len(buffer) - len(buffer.split(self.separator)[-1])

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


def division(source: SourceSection) -> Division | None:
    """The division of a ``.txt`` into documents; None if a file is one document."""
    return None if source.separator is None else Division(source.separator.encode())


class Reader:
    """A stream to which the last bytes read can be returned; ``position`` counts them, ``offset`` those of the file."""

    def __init__(self, stream: BinaryIO, encoding: str = "", offset: int = 0) -> None:
        self.position, self.offset = 0, offset
        self.encoding = encoding
        self._stream = stream
        self._returned = b""
        self._damage: DamagedInput | None = None

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; b"" only at the end."""
        if self._returned:
            block, self._returned = self._returned[:size], self._returned[size:]
        else:
            block = self._fetch(size)
        self.position += len(block)
        self.offset += raw_size(block, self.encoding)
        return block

    def _fetch(self, size: int) -> bytes:
        """Read more; data before damage is returned first, the damage is raised by the next call."""
        block = b""
        if self._damage is None:
            block, self._damage = read_block(self._stream, size)
        if self._damage is not None and not block:
            raise self._damage
        return block

    def give_back(self, block: bytes) -> None:
        """Return the bytes that were read last, to be read again."""
        self._returned = block + self._returned
        self.position -= len(block)
        self.offset -= raw_size(block, self.encoding)

    def document(self, division: Division | None) -> Iterator[bytes]:
        """The raw bytes of the document that begins here, in parts; its separator is consumed."""
        buffer = b""
        while True:
            fresh = self.read(BLOCK_BYTES)
            buffer += fresh
            document, separator, rest = buffer.partition(division.separator) if division else (buffer, b"", b"")
            if separator:
                self.give_back(rest)
                yield document
                return
            if not fresh:
                if buffer:
                    yield buffer
                return
            # A separator may begin in the part that is kept.
            done = len(buffer) - (len(division.separator) if division else 0)
            if done > 0:
                yield buffer[:done]
                buffer = buffer[done:]


class Scout:
    """Reads raw files, one after the other, at ascending places; each is opened on first use, once.

    The key and cuts of a long document must be known before its first piece is sent; an archive cannot seek back, so a
    second reader looks ahead.
    """

    def __init__(self, files: Sequence[RawFile], suffixes: tuple[str, ...]) -> None:
        self._files = files
        self._suffixes = suffixes
        self._members: Generator[Member] | None = None
        self._reader: Reader | None = None
        self._source = self._number = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._members is not None:
            self._members.close()

    def at(self, source: int, member: int, position: int) -> Reader:
        """A reader at a position in the member with this number, in archive order from 0, of the file with this one."""
        if self._members is None or self._source != source:
            self.__exit__()
            self._members = cast("Generator[Member]", self._files[source].members(self._suffixes))
            self._reader, self._source, self._number = None, source, -1
        while self._reader is None or self._number < member:
            self._reader = Reader(*transcoded(next(self._members).stream))
            self._number += 1
        while (missing := position - self._reader.position) > 0 and self._reader.read(min(BLOCK_BYTES, missing)):
            pass
        if missing:
            path, place = self._files[source].path, self._reader.position
            message = f"{path}: expected to read on at byte {position}, is at {place}"
            raise AssertionError(message)
        return self._reader


class Contents(NamedTuple):
    """What a stretch of a unit holds; the detail of one that could not be read is None."""

    kind: Format  # whole documents; "nothing" where the first document was rejected
    marks: int = 0  # byte-order marks that were dropped before it
    lengths: npt.NDArray[np.int64] | None = None  # of values
    part: PartOfDocument | None = None  # instead of whole documents


NOTHING = Contents("nothing")


Values = tuple[int, bytes, npt.NDArray[np.int64]]
"""Number of the first value, the values one after the other, and the length of each, -1 where there is none."""


@dataclass(frozen=True)
class RecordsMember(Member):
    """Documents that are in no file, instead of a stream."""

    values: Iterator[Values]


class OpenMember:
    """A member of a raw file."""

    def __init__(self, text: MemberText, source: SourceSection) -> None:
        self._member = member = text.opened
        self._source = source
        self.marks = 0
        self.division: Division | None = None
        self.reader = Reader(text.stream, text.encoding, text.offset)
        if isinstance(member, RecordsMember) or plain_name(member.name).lower().endswith(COLUMNS):
            self.kind: Format = "values"
            return
        head = self.reader.read(BLOCK_BYTES)
        marked = head.startswith(BOM)
        self.kind = self._kind(head.removeprefix(BOM))
        self.division = LINES if self.kind == "lines" else division(source)
        # In JSON a byte-order mark is never text, and one of UTF-16 is not read.
        self.marks = int(self.reader.offset > raw_size(head, self.reader.encoding))
        if marked and (self.kind == "lines" or source.bom == "strip"):
            self.marks, head = 1, head.removeprefix(BOM)
        self.reader.give_back(head)

    def _kind(self, head: bytes) -> Format:
        """The kind of a file, by its name where that tells it, else by its beginning."""
        name = plain_name(self._member.name).lower()
        if name.endswith((".jsonl", ".ndjson")):
            return "lines"
        if name.endswith(".txt"):
            return "text"
        if name.endswith(TABLES) or head.startswith(TABLE_MARKS):
            message = f"text.raw: {self._member.name} is a table; save it as .parquet, or a document per line as .jsonl"
            raise RawInputError(message)
        if name.endswith(TOKENS):
            message = f"text.raw: {self._member.name} is no text; tokens in a file are read as they are: "
            message += f'outofcore.open_tokens("{self._member.name}", "uint16")'
            raise RawInputError(message)
        line, end, _ = head.lstrip().partition(b"\n")
        line = line.strip()
        is_object = line.startswith(b"{") and (line.endswith(b"}") or not end)
        if name.endswith(".json"):
            return "lines" if is_object or not line else "json"
        column = self._source.text_column
        has_text = is_object and any(f'"{key}"'.encode() in line for key in (column, column.split(".")[-1]))
        return "lines" if has_text else "text"

    def documents(self) -> Iterator[tuple[int, bytes | None, npt.NDArray[np.int64] | None]]:
        """Consecutive whole documents, about two megabytes at a time: offset, bytes, and lengths of values.

        The offset is that of the first byte, in Parquet that of the first row. Of a document that is too long there are
        no bytes, and the caller reads it before it requests the next ones.
        """
        if self.kind == "values":
            member = self._member
            yield from member.values if isinstance(member, RecordsMember) else values(member, self._source.text_column)
            return
        if self.kind == "json":
            return
        reader, divided = self.reader, self.division
        limit = WHOLE_BYTES if self.kind == "text" else RECORD_BYTES
        waiting, start = b"", reader.position
        while fresh := reader.read(BLOCK_BYTES):
            waiting += fresh
            end = divided.end_of_last(waiting) if divided else 0
            if end:
                yield reader.offset - raw_size(waiting, reader.encoding), waiting[:end], None
                waiting = waiting[end:]
            if len(waiting) > limit:
                reader.give_back(waiting)
                waiting = b""
                yield reader.offset, None, None
        # An empty file is an empty document.
        if waiting or (divided is None and reader.position == start):
            yield reader.offset - raw_size(waiting, reader.encoding), waiting, None
