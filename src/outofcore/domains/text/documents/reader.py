"""Read a member of a raw file sequentially with push-back; and a second reader that looks ahead."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import BinaryIO, Self, cast

from outofcore.domains.text.documents.cleaning import BLOCK_BYTES
from outofcore.domains.text.documents.division import Division
from outofcore.raw.blocks import read_block
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import Member, RawFile


class Reader:
    """A stream to which the last bytes read can be returned."""

    def __init__(self, stream: BinaryIO) -> None:
        self.position = 0
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

    def document(self, division: Division | None) -> Iterator[bytes]:
        """The raw bytes of the document that begins here, in parts; its separator is consumed.

        Afterwards the reader is at the start of the next document, or at the end.
        """
        buffer = b""
        while True:
            fresh = self.read(BLOCK_BYTES)
            buffer += fresh
            found = division.next(buffer, 0, last=not fresh) if division and buffer else None
            if found:
                self.give_back(buffer[found[1] :])
                yield buffer[: found[0]]
                return
            if not fresh:
                if buffer:
                    yield buffer
                return
            # A separator may begin in the part that is kept.
            done = len(buffer) - (division.longest if division else 0)
            if done > 0:
                yield buffer[:done]
                buffer = buffer[done:]


class Scout:
    """Reads a raw file at ascending places; opened on first use, once.

    The key and cuts of a long document must be known before its first piece is sent; an archive cannot seek back, so a
    second reader looks ahead.
    """

    def __init__(self, file: RawFile, suffixes: tuple[str, ...]) -> None:
        self._file = file
        self._suffixes = suffixes
        self._members: Generator[Member] | None = None
        self._reader: Reader | None = None
        self._number = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._members is not None:
            self._members.close()

    def at(self, member: int, offset: int) -> Reader:
        """A reader at an offset of the member with this number, counted from 0 in archive order."""
        if self._members is None:
            self._members = cast("Generator[Member]", self._file.members(self._suffixes))
        while self._reader is None or self._number < member:
            self._reader = Reader(next(self._members).stream)
            self._number += 1
        while self._reader.position < offset and self._reader.read(min(BLOCK_BYTES, offset - self._reader.position)):
            pass
        if self._reader.position != offset:
            message = f"{self._file.path}: expected to read on at byte {offset}, stands at {self._reader.position}"
            raise AssertionError(message)
        return self._reader
