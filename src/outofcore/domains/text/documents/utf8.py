"""Whether bytes are UTF-8, and where their characters begin."""

from __future__ import annotations

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
