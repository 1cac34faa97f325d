"""Read a stream of raw input in blocks, and keep what comes before damage."""

from __future__ import annotations

from typing import BinaryIO

from outofcore.raw.damage import ERRORS, DamagedInput, as_damage

_READ_BYTES = 1 << 16  # most of the readable part that a damaged file can lose


def read_block(stream: BinaryIO, size: int) -> tuple[bytes, DamagedInput | None]:
    """Read ``size`` bytes, fewer at the end or before damage; and the damage, if any: nothing after it can be read."""
    parts = []
    missing = size
    try:
        while missing and (part := stream.read(min(missing, _READ_BYTES))):
            parts.append(part)
            missing -= len(part)
    except ERRORS as error:
        return b"".join(parts), as_damage(error)
    return b"".join(parts), None
