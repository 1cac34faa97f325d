"""An opened file of documents: its kind, and stretches of whole documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from outofcore.domains.text.documents.cleaning import BLOCK_BYTES, BOM
from outofcore.domains.text.documents.division import LINES, Division, division
from outofcore.domains.text.documents.lines import RECORD_BYTES
from outofcore.domains.text.documents.parquet import values
from outofcore.domains.text.documents.reader import Reader
from outofcore.domains.text.params import SourceSection
from outofcore.raw.files import Member, plain_name

SUFFIXES = (".txt", ".jsonl", ".ndjson", ".parquet")
WHOLE_BYTES = 4 << 20
"""A plain text up to this many raw bytes is read whole; a longer one is surveyed first, then read in pieces."""

Kind = Literal["text", "lines", "values"]


@dataclass(frozen=True)
class Stretch:
    """Consecutive whole documents, about two megabytes; or the start of one too long for that."""

    offset: int  # of its first byte (its first row in Parquet)
    payload: bytes | None
    lengths: Any = None  # of the values of Parquet


class OpenMember:
    """A member of a raw file."""

    def __init__(self, member: Member, source: SourceSection) -> None:
        name = plain_name(member.name).lower()
        self.kind: Kind = "text"
        self.division: Division | None = division(source)
        if name.endswith(".parquet"):
            self.kind, self.division = "values", None
        elif name.endswith((".jsonl", ".ndjson")):
            self.kind, self.division = "lines", LINES
        self.reader = Reader(member.stream)
        self.marks = 0
        self._member = member
        self._source = source
        if self.kind != "values":
            mark = self.reader.read(len(BOM))
            # In JSON a byte-order mark is never text.
            self.marks = int(mark == BOM and (self.kind == "lines" or source.bom == "strip"))
            if not self.marks:
                self.reader.give_back(mark)

    def stretches(self) -> Iterator[Stretch]:
        """Its documents in order.

        A stretch without payload is a document above ``WHOLE_BYTES`` (``RECORD_BYTES`` for lines), which the caller
        must read from the reader before requesting the next.
        """
        if self.kind == "values":
            for row, payload, lengths in values(self._member, self._source.text_column):
                yield Stretch(row, payload, lengths)
            return
        reader, divided = self.reader, self.division
        limit = WHOLE_BYTES if self.kind == "text" else RECORD_BYTES
        waiting, start = b"", reader.position
        while fresh := reader.read(BLOCK_BYTES):
            waiting += fresh
            end = divided.end_of_last(waiting, last=False) if divided else 0
            if end:
                yield Stretch(reader.position - len(waiting), waiting[:end])
                waiting = waiting[end:]
            if len(waiting) > limit:
                reader.give_back(waiting)
                waiting = b""
                yield Stretch(reader.position, None)
        # An empty file is an empty document.
        if waiting or (divided is None and reader.position == start):
            yield Stretch(reader.position - len(waiting), waiting)
