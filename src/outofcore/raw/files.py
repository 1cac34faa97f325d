"""Find raw files and read them as streams, through compression and archives, without unpacking to disk."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from outofcore.errors import RawInputError
from outofcore.raw.archives import tar_entries, zip_entries
from outofcore.raw.checked import Checked, Expansion, Unreadable, buffered
from outofcore.raw.damage import DamagedInput
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
        """Open the file: itself, or in archive order each member whose name ends with a suffix.

        What cannot be read is given as well: reading its stream raises :class:`~outofcore.raw.damage.DamagedInput`,
        after what can be read before the damage. That is a member which breaks off, is encrypted, is a link, a device
        or another archive; under the archive's own name, the rest of an archive that breaks off; and whatever becomes
        absurdly more than it is on disk (:data:`~outofcore.raw.checked.MOST_FOLD`).

        Parameters
        ----------
        suffixes
            Endings of the member names that count; others are passed over. A file that is no archive is always given.
        """
        with self.path.open("rb") as raw:
            if not self.name.lower().endswith(ARCHIVES):
                yield Member(self.name, _opened(raw, self.name, Expansion(raw.tell)), raw.tell)
                return
            zipped = self.name.lower().endswith(".zip")
            # The directory of a zip archive is read first, and may name one place of the file many times.
            inside = Expansion((lambda: self.bytes) if zipped else raw.tell)

            def counts(name: str) -> bool:
                return wanted(name, suffixes) or name.lower().endswith(ARCHIVES)

            if zipped:
                entries = zip_entries(raw, counts)
            else:
                name = self.name.lower().replace(".tgz", ".tar.gz")
                entries = tar_entries(_opened(raw, name, Expansion(raw.tell)), counts)
            for entry in entries:
                name = label(entry.name)
                problem = entry.problem
                if entry.stream is not None and name.lower().endswith(ARCHIVES):
                    problem = DamagedInput("an archive inside an archive; unpack the outer one", "nested_archive")
                if problem is not None or entry.stream is None:
                    stream = buffered(Unreadable(problem or DamagedInput("nothing to read")))
                else:
                    stream = _opened(entry.stream, name, inside, always=zipped)
                yield Member(f"{self.name}/{name}" if name else self.name, stream, raw.tell)


def _opened(stream: BinaryIO, name: str, expansion: Expansion, *, always: bool = False) -> BinaryIO:
    """Read through the compression that a name states, checked; what is not compressed is given as it is."""
    plain = decompressed(stream, name)
    if plain is stream and not always:
        return stream
    return buffered(Checked(cast("Any", plain), expansion))


def decompressed(stream: BinaryIO, name: str) -> BinaryIO:
    """Read through the compression that the name's ending states, if any."""
    name = name.lower()
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
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def label(name: str) -> str:
    """A name that can be written anywhere: bytes in it that are no UTF-8 are spelt out."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


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
        return [RawFile(label(root.name), root, root.stat().st_size)]
    if not root.is_dir():
        message = f"{section}.raw: expected a file or a folder, found nothing at {root}"
        raise RawInputError(message)
    found = [
        RawFile(label(PurePosixPath(path.relative_to(root)).as_posix()), path, path.stat().st_size)
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
