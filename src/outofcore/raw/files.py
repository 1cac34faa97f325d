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
from outofcore.raw.seven import seven_entries
from outofcore.raw.walk import walk
from outofcore.raw.xz import XzStream
from outofcore.raw.zstd import ZstdStream

COMPRESSIONS = (".zst", ".gz", ".bz2", ".xz")
SHORT = {".tgz": ".tar.gz", ".tbz2": ".tar.bz2", ".txz": ".tar.xz", ".tzst": ".tar.zst"}
ARCHIVES = (".tar", *(f".tar{suffix}" for suffix in COMPRESSIONS), *SHORT, ".zip", ".7z")
UNREAD_COMPRESSIONS = (".lz4", ".lz", ".lzma", ".lzo", ".br", ".z")
UNREAD_ARCHIVES = (".rar", ".7z.001", ".zip.001", ".zipx", ".cab", ".arj", ".lzh", ".lha", ".ace", ".iso")
"""Suffixes of unsupported compression; such files are reported as left out."""
UNREAD = "compressed as nothing here can decompress it; compress it as .zst, .xz or .gz, or unpack it"
PICKLES = (".pt", ".pth", ".pkl", ".pickle")
PICKLED = (
    "pickled Python objects, which may run code when they are read; save the arrays as .npz or .h5, text as .jsonl"
)
LINKED_FOLDER = "a link to a folder, into which DVC does not look; put the folder itself there, or name it in match"
BROKEN_LINK = "a link that leads nowhere"
BLOCK_BYTES = 1 << 18


@dataclass(frozen=True)
class Member:
    """One raw file, plain or inside an archive."""

    name: str  # relative to the raw input; ``archive/member`` inside an archive
    stream: BinaryIO  # decompressed, to be read once, before the next member is requested
    raw_position: Callable[[], int]  # returns the bytes of the file on disk read so far


@dataclass(frozen=True)
class RawFile:
    """A file of the user's input."""

    name: str  # relative to the raw input, with ``/``; the file name if the input is a single file
    path: Path
    bytes: int  # on disk

    def digest(self, check: Callable[[], object] = lambda: None) -> str:
        """SHA-256 of the file on disk, in hexadecimal; ``check`` is called for each block, and may raise."""
        digest, block = hashlib.sha256(), memoryview(bytearray(BLOCK_BYTES))
        with self.path.open("rb", buffering=0) as stream:
            while count := stream.readinto(block):
                check()
                digest.update(block[:count])
        return digest.hexdigest()

    def members(self, suffixes: tuple[str, ...]) -> Iterator[Member]:
        """Open the file: itself, or in archive order each member whose name ends with a suffix.

        Unreadable data is included: its stream raises :class:`~outofcore.raw.damage.DamagedInput` after what can be
        read. That applies to a member that is truncated, encrypted, a link, a device or another archive; under the
        archive's own name, to the rest of a truncated archive; and to anything that expands implausibly
        (:data:`~outofcore.raw.checked.MOST_FOLD`). A file that is not an archive is always included.
        """
        disk = _NamedFile(self.path)
        with io.BufferedReader(disk) as raw:
            if not self.name.lower().endswith(ARCHIVES):
                yield Member(self.name, _opened(raw, self.name, Expansion(raw.tell)), raw.tell)
                return
            listed = self.name.lower().endswith((".zip", ".7z"))
            # The directory of these archives is read first and may refer to one offset many times.
            inside = Expansion((lambda: self.bytes) if listed else raw.tell)

            def counts(name: str) -> bool:
                return wanted(name, suffixes) or name.lower().endswith(ARCHIVES) or unread(name, suffixes)

            if self.name.lower().endswith(".zip"):
                entries = zip_entries(raw, counts)
            elif listed:
                entries = seven_entries(raw, self.name, counts)
            else:
                ending = PurePosixPath(self.name.lower()).suffix
                name = self.name.lower().removesuffix(ending) + SHORT.get(ending, ending)
                entries = tar_entries(_opened(raw, name, Expansion(raw.tell)), counts)
            for entry in entries:
                if disk.trouble is not None:
                    raise disk.trouble
                name = label(entry.name)
                problem = entry.problem
                if entry.stream is not None and name.lower().endswith(ARCHIVES):
                    problem = DamagedInput("an archive inside an archive; unpack the outer one", "nested_archive")
                elif entry.stream is not None and unread(name, suffixes):
                    problem = DamagedInput(UNREAD)
                if problem is not None or entry.stream is None:
                    stream = buffered(Unreadable(problem or DamagedInput("nothing to read")))
                else:
                    stream = _opened(entry.stream, name, inside, always=listed)
                yield Member(f"{self.name}/{name}" if name else self.name, stream, raw.tell)


class _NamedFile(io.FileIO):
    """A file that adds its name to errors, and remembers them, as zipfile swallows them."""

    trouble: OSError | None = None

    def readinto(self, target: Any) -> int:
        try:
            return super().readinto(target)
        except OSError as error:
            self._remember(error)
            raise

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            self._remember(error)
            raise

    def _remember(self, error: OSError) -> None:
        error.filename = os.fspath(self.name)
        self.trouble = error


def _opened(stream: BinaryIO, name: str, expansion: Expansion, *, always: bool = False) -> BinaryIO:
    """Decompressed according to a name's suffix and checked; uncompressed data is passed through."""
    plain = decompressed(stream, name)
    if plain is stream and not always:
        return stream
    return buffered(Checked(cast("Any", plain), expansion))


def decompressed(stream: BinaryIO, name: str) -> BinaryIO:
    """Decompressed according to the name's suffix, if any."""
    name = name.lower()
    if name.endswith(".zst"):
        return cast("BinaryIO", io.BufferedReader(ZstdStream(stream, name), 1 << 20))
    if name.endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream, mode="rb"))
    if name.endswith(".bz2"):
        return cast("BinaryIO", bz2.BZ2File(stream, "rb"))
    if name.endswith(".xz"):
        return cast("BinaryIO", io.BufferedReader(XzStream(stream, name), 1 << 20))
    return stream


def plain_name(name: str) -> str:
    """The name without its compression suffix: ``games.pgn.zst`` -> ``games.pgn``."""
    for suffix in COMPRESSIONS:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def label(name: str) -> str:
    """A name that is printable anywhere: bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def wanted(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file of this name counts: by its suffix, ignoring compression."""
    return plain_name(name).lower().endswith(suffixes)


def unread(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file of this name would count, but has an unsupported compression."""
    name = name.lower()
    if name.endswith(UNREAD_ARCHIVES):
        return True
    ending = PurePosixPath(name).suffix
    return ending in UNREAD_COMPRESSIONS and name.removesuffix(ending).endswith((*suffixes, ".tar"))


@dataclass(frozen=True)
class Search:
    """Result of a search."""

    files: list[RawFile]  # sorted by name, with numbers by value
    left_out: dict[str, str]  # reason by name, for matching files that are not read


def find_files(raw: str | Path, match: str, suffixes: tuple[str, ...], *, section: str) -> list[RawFile]:
    """The raw files alone; see :func:`search`."""
    return search(raw, match, suffixes, section=section).files


def search(raw: str | Path, match: str, suffixes: tuple[str, ...], *, section: str) -> Search:
    """Look for raw files in a file or folder.

    ``match`` is a glob pattern inside the folder, ``**`` for folders at any depth without links. ``suffixes`` select
    names in a folder, ignoring compression; archives always count. ``section`` is the params section for messages.
    Raises RawInputError if the path does not exist or has no such file, if an entry cannot be examined, or if it is a
    pipe, socket or device, on which DVC would block.
    """
    root = Path(raw)
    try:
        return _search(root, match, suffixes, section)
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else root
        message = (
            f"{section}.raw: cannot look at {label(str(where))}: {error.strerror}; make it readable, or leave it out "
            f"with {section}.match"
        )
        raise RawInputError(message) from error


def _search(root: Path, match: str, suffixes: tuple[str, ...], section: str) -> Search:
    if root.is_file():
        if unread(root.name, suffixes):
            message = f"{section}.raw: {root} is {UNREAD}"
            raise RawInputError(message)
        if root.suffix.lower() in PICKLES and not wanted(root.name, suffixes):
            message = f"{section}.raw: {root} holds {PICKLED}"
            raise RawInputError(message)
        return Search([RawFile(label(root.name), root, root.stat().st_size)], {})
    if not root.is_dir():
        found = "a pipe, a socket or a device" if root.exists() else "nothing"
        message = f"{section}.raw: expected a file or a folder, found {found} at {root}"
        raise RawInputError(message)
    files, left_out = [], {}
    before = os.path.join(root, "")  # noqa: PTH118 - pathlib takes a tenth of a second for ten thousand names
    for entry in walk(root, match):
        path = Path(entry.path)
        name = label(entry.path.removeprefix(before))
        counts = wanted(entry.name, suffixes) or entry.name.lower().endswith(ARCHIVES)
        if entry.is_dir():
            left_out[name] = LINKED_FOLDER
        elif entry.is_file():
            if counts:
                files.append(RawFile(name, path, entry.stat().st_size))
            elif unread(entry.name, suffixes):
                left_out[name] = UNREAD
            elif path.suffix.lower() in PICKLES:
                left_out[name] = PICKLED
        elif path.exists():
            message = (
                f"{section}.raw: {label(str(path))} is a pipe, a socket or a device: 'dvc repro' would wait for it for "
                "ever; move it out of the folder"
            )
            raise RawInputError(message)
        elif counts or unread(entry.name, suffixes):
            left_out[name] = BROKEN_LINK
    if not files:
        kinds = ", ".join(f"*{suffix}" for suffix in suffixes if suffix.startswith("."))
        message = (
            f"{section}.raw: no file under {root} matches {section}.match = {match!r} and is one of {kinds} "
            "(compressed or in an archive); set them to where the input lies"
        )
        if left_out:
            name, why = min(left_out.items())
            message += f"; left out: {len(left_out)}, the first {name} ({why})"
        raise RawInputError(message)
    in_order = sorted(left_out, key=natural_order)
    return Search(sorted(files, key=lambda file: natural_order(file.name)), {name: left_out[name] for name in in_order})


def natural_order(name: str) -> tuple[tuple[int, bytes], ...]:
    """Sort key that puts ``2.sgf`` before ``10.sgf``, in every locale; different names have different keys."""
    whole = os.fsencode(name)
    parts = re.split(rb"(\d+)", whole)
    return (*((int(part), b"") if part.isdigit() else (-1, part) for part in parts), (-1, whole))
