"""Files and archives as people pack them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import zstandard

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".zst": zstandard.compress,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
Members = Mapping[str, bytes | dict[str, Any]]
"""Contents by name, or facts of a tar header that has none, such as its type."""


def header(name: str, size: int = 0, **facts: Any) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    for fact, value in facts.items():
        setattr(entry, fact, value)
    return entry


def tar(members: Members, kind: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, content in members.items():
            if isinstance(content, bytes):
                archive.addfile(header(name, len(content)), io.BytesIO(content))
            else:
                archive.addfile(header(name, **content))
    return buffer.getvalue()


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def write(folder: Path, *names: str, content: bytes = b"x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
