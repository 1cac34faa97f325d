"""Detect changes of raw files during a conversion: a sealed store must come from one state of each."""

from __future__ import annotations

from collections.abc import Sequence

from outofcore.errors import RawInputError
from outofcore.raw.files import RawFile

Stamp = tuple[int, int, int]
"""Size, modification time in nanoseconds, and inode of a file."""


def stamps_of(files: Sequence[RawFile]) -> list[Stamp]:
    """A stamp of each file's state; raises RawInputError if one is gone or changed since it was listed."""
    stamps = [_stamp(file) for file in files]
    for file, (size, _, _) in zip(files, stamps, strict=True):
        if size != file.bytes:
            raise RawInputError(_changed(file, f"{file.bytes:,} bytes when it was listed, {size:,} now"))
    return stamps


def check_unchanged(files: Sequence[RawFile], stamps: Sequence[Stamp]) -> None:
    """Raise RawInputError if a file has changed."""
    for file, stamp in zip(files, stamps, strict=True):
        if (found := _stamp(file)) != stamp:
            names = ("size", "time of change", "inode")
            other = [name for name, before, now in zip(names, stamp, found, strict=True) if before != now]
            raise RawInputError(_changed(file, f"{' and '.join(other)} differ from the beginning"))


def _stamp(file: RawFile) -> Stamp:
    try:
        facts = file.path.stat()
    except FileNotFoundError as error:
        raise RawInputError(_changed(file, "it is gone")) from error
    return facts.st_size, facts.st_mtime_ns, facts.st_ino


def _changed(file: RawFile, how: str) -> str:
    return (
        f"{file.path} has changed during the conversion ({how}), so nothing was sealed; run again when nothing "
        "writes to the raw input"
    )
