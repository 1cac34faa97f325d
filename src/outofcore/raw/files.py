"""Find raw files and read them as streams, through compression and archives, without unpacking to disk."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from outofcore.errors import RawInputError
from outofcore.raw.zstd import ZstdStream

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.zst", ".zip")
COMPRESSIONS = (".zst", ".gz", ".bz2")


@dataclass(frozen=True)
class Member:
    """One file of raw text: a plain file, or a file inside an archive.

    Attributes
    ----------
    name
        Name relative to the raw input; for a member, ``archive/member``.
    stream
        Its decompressed bytes, to be read once, before the next member is asked for.
    raw_position
        How many bytes of the file on disk have been read so far.
    """

    name: str
    stream: BinaryIO
    raw_position: Callable[[], int]


@dataclass(frozen=True)
class RawFile:
    """A file of the user's input.

    Attributes
    ----------
    name
        Path relative to the raw input, with ``/``; the file name where the input is that one file.
    path
        Where it lies.
    bytes
        Its size on disk.
    """

    name: str
    path: Path
    bytes: int

    def digest(self) -> str:
        """SHA-256 of the file as it lies on disk, in hexadecimal."""
        with self.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def members(self, suffixes: tuple[str, ...]) -> Iterator[Member]:
        """Open the file: itself, or in archive order each member whose name ends with a suffix or is named plainly.

        Parameters
        ----------
        suffixes
            Endings of the member names that count; others are passed over. A file that is no archive is always given.

        Raises
        ------
        RawInputError
            If the archive cannot be read at all.
        """
        with self.path.open("rb") as raw:
            if self.name.endswith(".zip"):
                yield from self._zipped(raw, suffixes)
            elif self.name.endswith(ARCHIVES):
                yield from self._tarred(raw, suffixes)
            else:
                yield Member(self.name, decompressed(raw, self.name), raw.tell)

    def _zipped(self, raw: BinaryIO, suffixes: tuple[str, ...]) -> Iterator[Member]:
        try:
            archive = zipfile.ZipFile(raw)
        except zipfile.BadZipFile as error:
            message = f"{self.path}: expected a zip archive, {error}"
            raise RawInputError(message) from error
        with archive:
            for entry in archive.infolist():
                if not entry.is_dir() and wanted(entry.filename, suffixes):
                    with archive.open(entry) as stream:
                        inner = decompressed(cast("BinaryIO", stream), entry.filename)
                        yield Member(f"{self.name}/{entry.filename}", inner, raw.tell)

    def _tarred(self, raw: BinaryIO, suffixes: tuple[str, ...]) -> Iterator[Member]:
        stream = decompressed(raw, self.name.replace(".tgz", ".tar.gz"))
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for entry in archive:
                    if not entry.isfile() or not wanted(entry.name, suffixes):
                        continue
                    inner = cast("IO[bytes]", archive.extractfile(entry))
                    yield Member(
                        f"{self.name}/{entry.name}",
                        decompressed(cast("BinaryIO", inner), entry.name),
                        raw.tell,
                    )
        except tarfile.ReadError as error:
            message = f"{self.path}: expected a tar archive, {error}"
            raise RawInputError(message) from error


def decompressed(stream: BinaryIO, name: str) -> BinaryIO:
    """Read through the compression that the name's ending states, if any."""
    if name.endswith(".zst"):
        return cast("BinaryIO", io.BufferedReader(ZstdStream(stream), 1 << 20))
    if name.endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream, mode="rb"))
    if name.endswith(".bz2"):
        return cast("BinaryIO", bz2.BZ2File(stream, "rb"))
    return stream


def plain_name(name: str) -> str:
    """The name without its compression suffix: ``games.pgn.zst`` -> ``games.pgn``."""
    for suffix in COMPRESSIONS:
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def wanted(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file of this name counts: by its ending, compression aside."""
    return plain_name(name).lower().endswith(suffixes)


def find_files(raw: str | Path, match: str, suffixes: tuple[str, ...], *, section: str) -> list[RawFile]:
    """List the raw files, sorted by name, numbers in names by value.

    Parameters
    ----------
    raw
        A file, or a folder that is searched.
    match
        Glob pattern inside the folder; ``**/*`` for everything.
    suffixes
        Endings of the names that count in a folder, compression aside; archives always do.
    section
        Name of the params section, for messages.

    Raises
    ------
    RawInputError
        If the path does not exist or holds no file of these kinds.
    """
    root = Path(raw)
    if root.is_file():
        return [RawFile(root.name, root, root.stat().st_size)]
    if not root.is_dir():
        message = f"{section}.raw: expected a file or a folder, found nothing at {root}"
        raise RawInputError(message)
    found = [
        RawFile(PurePosixPath(path.relative_to(root)).as_posix(), path, path.stat().st_size)
        for path in root.glob(match)
        if path.is_file() and (wanted(path.name, suffixes) or path.name.lower().endswith(ARCHIVES))
    ]
    if not found:
        kinds = ", ".join(f"*{suffix}" for suffix in suffixes)
        message = (
            f"{section}.raw: no file under {root} matches {section}.match = {match!r} and is one of {kinds} "
            "(compressed or in an archive); set them to where the input lies"
        )
        raise RawInputError(message)
    return sorted(found, key=lambda file: natural_order(file.name))


def natural_order(name: str) -> tuple[tuple[int, bytes], ...]:
    """Sort key under which ``2.sgf`` stands before ``10.sgf``, the same in every locale."""
    parts = re.split(rb"(\d+)", os.fsencode(name))
    return tuple((int(part), b"") if part.isdigit() else (-1, part) for part in parts)
