"""Whether bytes are UTF-8, and where their characters begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

# Below this many bytes, decoding is faster than calling another library.
_FEW_BYTES = 4096
BOM = b"\xef\xbb\xbf"


def first_wrong_byte(raw: bytes) -> int:
    """Where bytes stop being UTF-8, -1 if they do not."""
    if raw.isascii() or (len(raw) >= _FEW_BYTES and _is_utf8(raw)):
        return -1
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -1


def _is_utf8(raw: bytes) -> bool:
    """Whether many bytes are valid UTF-8, much faster than by decoding them."""
    offsets = np.array([0, len(raw)], np.int64)
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])
    try:
        text.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def whole_characters(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Move cuts of a text out of characters."""
    rest = b""
    for part in parts:
        block = rest + part
        end = _without_unfinished(block)
        rest = block[end:]
        if end:
            yield block[:end]
    if rest:
        yield rest


def _without_unfinished(block: bytes) -> int:
    """Length of the block without a last character that may be unfinished."""
    for back in range(1, min(4, len(block)) + 1):
        byte = block[-back]
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
