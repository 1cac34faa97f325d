"""Read a stream of raw input in blocks, and keep what comes before damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from outofcore.raw.damage import ERRORS, DamagedInput, as_damage
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit

_READ_BYTES = 1 << 16  # most of the readable part that a damaged file can lose


def units_of_records(
    files: Sequence[RawFile], suffixes: tuple[str, ...], cut: Callable[[bytes], int], size: int = 1 << 20
) -> Iterator[Unit]:
    """Units of whole records, of about ``size`` bytes, for formats that show where a record begins.

    Parameters
    ----------
    files, suffixes
        The raw files, and the names that count in a folder or an archive.
    cut
        Where the last record of a text begins, 0 if none does after its first byte.

    Yields
    ------
    Unit
        If the input is damaged, the last one ends before the record that the damage interrupts, and has the damage as
        ``detail["damage"]``.
    """
    for source, file in enumerate(files):
        before = 0
        for member in file.members(suffixes):
            offset, text, damage, ended = 0, b"", None, False
            while not ended:
                block, damage = read_block(member.stream, size)
                ended = damage is not None or not block
                text += block
                end = len(text) if ended and (damage is None or damage.whole) else cut(text)
                here = member.raw_position()
                yield Unit(
                    source=source,
                    name=member.name,
                    offset=offset,
                    payload=text[:end],
                    detail={"damage": str(damage)} if damage else {},
                    raw_bytes=here - before,
                )
                offset, text, before = offset + end, text[end:], here


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
