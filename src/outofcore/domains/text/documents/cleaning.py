"""Clean raw bytes before decoding: newlines and invalid UTF-8, by policy, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from outofcore.domains.text.params import SourceSection

# Below this many bytes, decoding is faster than calling another library.
_FEW_BYTES = 4096
BOM = b"\xef\xbb\xbf"


class InvalidText(Exception):  # noqa: N818 - not an error: the worker turns it into a reject
    """Bytes that are not UTF-8, if such documents are to be rejected; ``position`` is that of the first wrong byte."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


@dataclass(frozen=True)
class Cleaned:
    """UTF-8 that is ready for the tokenizer."""

    text: bytes
    replaced: bool = False  # U+FFFD replaces bytes that were not UTF-8
    carriage_returns: int = 0  # CR characters that became LF, or were dropped before one


def clean(raw: bytes, source: SourceSection) -> Cleaned:
    """Apply the policies for invalid UTF-8 and newlines to a text or block; raises InvalidText."""
    replaced = False
    if not is_utf8(raw):
        if source.invalid_utf8 == "reject":
            raise InvalidText(_first_wrong_byte(raw))
        raw, replaced = raw.decode(errors="replace").encode(), True
    carriage_returns = 0
    if source.newlines == "lf" and b"\r" in raw:
        carriage_returns = raw.count(b"\r")
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return Cleaned(raw, replaced, carriage_returns)


def is_utf8(raw: bytes) -> bool:
    """Whether bytes are valid UTF-8; for many bytes much faster than decoding."""
    if raw.isascii():
        return True
    if len(raw) < _FEW_BYTES:
        return _first_wrong_byte(raw) < 0
    offsets = np.array([0, len(raw)], np.int64)
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])
    try:
        text.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _first_wrong_byte(raw: bytes) -> int:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -1


def blocks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Move cuts of a raw text out of characters and CR LF, so that its parts can be cleaned separately."""
    rest = b""
    for part in parts:
        block = rest + part
        keep = _whole(block)
        rest = block[keep:]
        if keep:
            yield block[:keep]
    if rest:
        yield rest


def _whole(block: bytes) -> int:
    """Length of the block without a possibly unfinished last character and without a last CR."""
    for back in range(1, min(4, len(block)) + 1):
        byte = block[-back]
        if byte == 0x0D and back == 1:
            return len(block) - 1
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(block) - back if back < length else len(block)
        if byte < 0x80:
            break
    return len(block)


def characters(text: bytes) -> int:
    """Number of code points of valid UTF-8: its bytes that do not continue a character."""
    if text.isascii():
        return len(text)
    # As signed numbers, continuation bytes (0x80 to 0xBF) are those below -64.
    return int(np.count_nonzero(np.frombuffer(text, np.int8) >= -64))
