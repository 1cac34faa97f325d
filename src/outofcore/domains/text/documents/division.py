"""Where documents of a stream are divided: at line ends or at a separator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from outofcore.domains.text.params import SourceSection


@dataclass(frozen=True)
class Division:
    """The separator between documents; found from left to right, as in :meth:`bytes.split`."""

    separator: bytes
    any_newline: bool = False  # LF in the separator matches CRLF, CR or LF in the raw text

    @property
    def longest(self) -> int:
        """Bytes of the longest match."""
        return len(self.separator) + self.separator.count(b"\n") * self.any_newline

    def next(self, buffer: bytes, start: int, *, last: bool) -> tuple[int, int] | None:
        """Start and end of the first separator from ``start``.

        Unless the stream ends with the buffer (``last``), a match that more bytes could change does not count.
        """
        if not self.any_newline:
            found = buffer.find(self.separator, start)
            return None if found < 0 else (found, found + len(self.separator))
        match = self._pattern.search(buffer, start)
        if match is None or (match.end() == len(buffer) and not last and buffer.endswith(b"\r")):
            return None
        return match.span()

    def end_of_last(self, buffer: bytes, *, last: bool) -> int:
        """End of the last separator in a buffer that begins with a document, or 0."""
        if self._seen_from_behind:
            found = buffer.rfind(self.separator)
            return found + len(self.separator) if found >= 0 else 0
        end = 0
        while place := self.next(buffer, end, last=last):
            end = place[1]
        return end

    def split(self, buffer: bytes) -> list[tuple[int, int]]:
        """Start and end of each non-empty piece between separators of a whole stretch."""
        pieces, start = [], 0
        while start < len(buffer):
            stop, after = self.next(buffer, start, last=True) or (len(buffer), len(buffer))
            if stop > start:
                pieces.append((start, stop))
            start = after
        return pieces

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?:\r\n|\r(?!\n)|\n)".join(re.escape(part) for part in self.separator.split(b"\n")))

    @cached_property
    def _seen_from_behind(self) -> bool:
        """Whether matches can never overlap, so that the last one is the same from either side."""
        text = self.separator
        return not self.any_newline and all(text[:size] != text[-size:] for size in range(1, len(text)))


LINES = Division(b"\n")


def division(source: SourceSection) -> Division | None:
    """The division of a ``.txt`` into documents; None if a file is one document."""
    if source.separator is None:
        return None
    separator = source.separator.encode()
    if source.newlines == "keep":
        return Division(separator)
    separator = separator.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return Division(separator, any_newline=b"\n" in separator)
