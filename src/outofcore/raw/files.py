"""Find raw files and read them as streams, through compression and archives, without unpacking to disk."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from outofcore.errors import RawInputError
from outofcore.raw.archives import tar_entries, zip_entries
from outofcore.raw.damage import DamagedInput
from outofcore.raw.likely import NO_READER, advice
from outofcore.raw.streams import COMPRESSIONS, Buffered, Checked, Decompressed, Expansion
from outofcore.system.descriptors import first_bytes
from outofcore.system.failures import NamedFile

SHORT = {".tgz": ".tar.gz", ".tbz2": ".tar.bz2", ".txz": ".tar.xz", ".tzst": ".tar.zst"}
ARCHIVES = (".tar", *(f".tar{suffix}" for suffix in COMPRESSIONS), *SHORT, ".zip")
UNREAD_COMPRESSIONS = (".lz4", ".lz", ".lzma", ".lzo", ".br", ".z")
UNREAD_ARCHIVES = (".7z", ".rar", ".7z.001", ".zip.001", ".zipx", ".cab", ".arj", ".lzh", ".lha", ".ace", ".iso")
"""Suffixes of unsupported compression; such files are reported as left out."""
UNREAD = "compressed as nothing here can decompress it; unpack it, or compress it as .zst, .xz or .gz"
LINKED_FOLDER = "a link to a folder, into which DVC does not look; put the folder itself there, or name it in match"
BROKEN_LINK = "a link that leads nowhere"
HIDDEN = "hidden, or what a system or a program keeps for itself; name it in match if it is meant"
BLOCK_BYTES = 1 << 18
_PAGE_BYTES = 1 << 20  # of a Parquet file, read at a time
SMALL_BYTES = 1 << 16  # a plain file of at most so many is read at once


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
    place: str  # its path on disk: an object for the path of each of many small files takes longer than reading them
    bytes: int  # on disk
    left_out: dict[str, str] = field(default_factory=dict, kw_only=True, compare=False, repr=False)
    """Reason by name, for members of the archive that are not read, as far as it was read."""

    @property
    def path(self) -> Path:
        """Where it is on disk."""
        return Path(self.place)

    def digest(self, check: Callable[[], object] = lambda: None) -> str:
        """SHA-256 of the file on disk, in hexadecimal; ``check`` is called for each block, and may raise."""
        check()
        if (content := _small_content(self)) is not None:
            return hashlib.sha256(content).hexdigest()
        digest, block = hashlib.sha256(), memoryview(bytearray(BLOCK_BYTES))
        with io.FileIO(self.place) as stream:
            while count := stream.readinto(block):
                check()
                digest.update(block[:count])
        return digest.hexdigest()

    def members(self, suffixes: tuple[str, ...]) -> Iterator[Member]:
        """Open the file: itself, or in archive order each member whose name ends with a suffix.

        Unreadable data is included: its stream raises :class:`~outofcore.raw.damage.DamagedInput` after what can be
        read. That applies to a member that is truncated, encrypted, a link, a device or another archive; under the
        archive's own name, to the rest of a truncated archive; and to anything that expands implausibly
        (:data:`~outofcore.raw.streams.MOST_FOLD`). A file that is not an archive is always included. Other members are
        added to ``left_out``.
        """
        is_archive = self.name.lower().endswith(ARCHIVES)
        if not is_archive and (content := _small_content(self)) is not None:
            whole = io.BufferedReader(cast("Any", io.BytesIO(content)))
            yield Member(self.name, decompressed(whole, self.name, Expansion(whole.tell)), whole.tell)
            return
        disk = NamedFile(self.place)
        with io.BufferedReader(disk) as raw:
            if not is_archive:
                yield Member(self.name, decompressed(raw, self.name, Expansion(raw.tell)), raw.tell)
                return
            is_zip = self.name.lower().endswith(".zip")
            # The directory of a zip is read first and may refer to one offset many times.
            inside = Expansion((lambda: self.bytes) if is_zip else raw.tell)

            def counts(name: str) -> bool:
                why = _why_not(name, suffixes)
                if why:
                    self.left_out[f"{self.name}/{label(name)}"] = why
                return not why

            if is_zip:
                entries = zip_entries(raw, counts)
            else:
                ending = PurePosixPath(self.name.lower()).suffix
                name = self.name.lower().removesuffix(ending) + SHORT.get(ending, ending)
                entries = tar_entries(decompressed(raw, name, Expansion(raw.tell)), counts)
            for entry in entries:
                if disk.trouble is not None:
                    raise disk.trouble
                name, opened = label(entry.name), entry.content
                if not isinstance(opened, DamagedInput):
                    if unread(name, suffixes):
                        opened = DamagedInput(UNREAD)
                    elif name.lower().endswith(ARCHIVES):
                        opened = DamagedInput("an archive inside an archive; unpack the outer one", "nested_archive")
                if isinstance(opened, DamagedInput):
                    stream: BinaryIO = Buffered(Checked(io.BytesIO(), problem=opened))
                else:
                    stream = decompressed(opened, name, inside, always=is_zip)
                yield Member(f"{self.name}/{name}" if name else self.name, stream, raw.tell)


def _small_content(file: RawFile) -> bytes | None:
    """The bytes of a small file; None if it is large, not as it was listed, or unreadable."""
    if file.bytes > SMALL_BYTES:
        return None
    try:
        content = first_bytes(file.place, file.bytes + 1)
    except OSError:  # which reading in blocks will raise
        return None
    return content if len(content) == file.bytes else None


def decompressed(stream: BinaryIO, name: str, expansion: Expansion | None = None, *, always: bool = False) -> BinaryIO:
    """Decompressed according to the name's suffix, and checked; other data is only checked, and only if ``always``."""
    if name.lower().endswith(COMPRESSIONS):
        return Buffered(Checked(Decompressed(stream, name), expansion))
    return Buffered(Checked(cast("Any", stream), expansion)) if always else stream


def open_parquet(member: Member, *dictionaries: str) -> Any:
    """A ``pyarrow.parquet.ParquetFile``, whose columns named by ``dictionaries`` stay compact.

    Raises RawInputError if the member cannot be sought in: compressed as a whole, or in an archive.
    """
    import pyarrow.parquet as pq  # late: it takes a tenth of a second, and few have such files

    try:
        return pq.ParquetFile(member.stream, buffer_size=_PAGE_BYTES, pre_buffer=False, read_dictionary=dictionaries)
    except (io.UnsupportedOperation, tarfile.StreamError, AttributeError) as error:  # tar streams cannot seek
        raise RawInputError(
            f"{member.name}: Parquet is read from its end, so not from an archive or a compressed file; unpack it"
        ) from error


def plain_name(name: str) -> str:
    """The name without its compression suffix: ``games.pgn.zst`` -> ``games.pgn``."""
    if not name.lower().endswith(COMPRESSIONS):
        return name
    return name[: name.rindex(".")]


def unpacked_name(file: str, member: str) -> str:
    """Path of a member of a raw file, as if an archive were unpacked in place, without compression suffix."""
    if member == file:
        return plain_name(file)
    inside = member[len(file) + 1 :].removeprefix("./")
    return plain_name((PurePosixPath(file).parent / inside).as_posix())


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


def _why_not(name: str, suffixes: tuple[str, ...]) -> str:
    """Why a member of an archive is passed over, "" if it is not; one that cannot be decompressed is reported."""
    if any(hidden(step, suffixes) for step in name.split("/")):
        return HIDDEN
    read = wanted(name, suffixes) or name.lower().endswith(ARCHIVES) or unread(name, suffixes)
    return "" if read else advice(name)


def hidden(step: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a name in a path is of what people do not see, such as ``.git``, ``._game.sgf``, ``__MACOSX``."""
    return step == "__MACOSX" or (step.startswith(".") and step.strip(".") != "" and step[1:] not in suffixes)


@dataclass(frozen=True)
class Search:
    """Result of a search."""

    files: list[RawFile]  # sorted by name, with numbers by value
    unread: dict[str, str]  # reason by name, for matching files that are not read

    @property
    def left_out(self) -> dict[str, str]:
        """Reason by name of what is not read: files, and members of the archives as far as these were read."""
        return {**self.unread, **{name: why for file in self.files for name, why in file.left_out.items()}}


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
        raise RawInputError(
            f"{section}.raw: cannot look at {label(str(where))}: {error.strerror}; make it readable, or leave it out "
            f"with {section}.match"
        ) from error


def _search(root: Path, match: str, suffixes: tuple[str, ...], section: str) -> Search:
    if root.is_file():
        if unread(root.name, suffixes):
            raise RawInputError(f"{section}.raw: {root} is {UNREAD}")
        if not wanted(root.name, suffixes) and (what := advice(root.name)) != NO_READER:
            raise RawInputError(f"{section}.raw: {root} is {what}")
        return Search([RawFile(label(root.name), str(root), root.stat().st_size)], {})
    if not root.is_dir():
        what = "a pipe, a socket or a device" if root.exists() else "nothing"
        raise RawInputError(f"{section}.raw: expected a file or a folder, found {what} at {root}")
    files, left_out = [], {}
    before = os.path.join(root, "")  # noqa: PTH118 - pathlib takes a tenth of a second for ten thousand names
    for entry, is_hidden in _walk(root, match, lambda name: hidden(name, suffixes)):
        name = label(entry.path.removeprefix(before).replace(os.sep, "/"))
        counts = wanted(entry.name, suffixes) or entry.name.lower().endswith(ARCHIVES)
        if is_hidden:
            left_out[name] = HIDDEN
        elif entry.is_dir():
            left_out[name] = LINKED_FOLDER
        elif entry.is_file():
            if counts:
                files.append(RawFile(name, entry.path, entry.stat().st_size))
            elif unread(entry.name, suffixes):
                left_out[name] = UNREAD
            else:
                left_out[name] = advice(entry.name)
        elif Path(entry.path).exists():
            raise RawInputError(
                f"{section}.raw: {label(entry.path)} is a pipe, a socket or a device: a conversion would wait for it "
                "for ever; move it out of the folder"
            )
        elif counts or unread(entry.name, suffixes):
            left_out[name] = BROKEN_LINK
    if not files:
        kinds = ", ".join(f"*{suffix}" for suffix in suffixes if suffix.startswith("."))
        chosen = "" if match == "**/*" else f" that {section}.match = {match!r} selects"
        message = (
            f"{section}.raw: {root} has no file of {kinds} (compressed or in an archive){chosen}; name the folder "
            "where the input lies"
        )
        if left_out:
            name, why = min(left_out.items())
            message += f"; left out: {len(left_out)} ({endings(left_out)}), the first {name} ({why})"
        raise RawInputError(message)
    in_order = sorted(left_out, key=natural_order)
    return Search(sorted(files, key=lambda file: natural_order(file.name)), {name: left_out[name] for name in in_order})


def by_ending(names: Iterable[str]) -> dict[str, int]:
    """How many names have each ending, the most frequent first; ``.json.gz`` is one."""
    return dict(Counter(map(_ending, names)).most_common())


def _ending(name: str) -> str:
    path = PurePosixPath(name.lower())
    packed = path.suffix in (*COMPRESSIONS, *UNREAD_COMPRESSIONS)
    return "".join(path.suffixes[-2:] if packed else path.suffixes[-1:]) or path.name


def endings(names: Iterable[str], most: int = 5) -> str:
    """The counts of :func:`by_ending` in words: ``.md 3, .json.gz 2``."""
    counts = by_ending(names)
    more = f", {len(counts) - most} other endings" if len(counts) > most else ""
    return ", ".join(f"{ending} {count:,}" for ending, count in islice(counts.items(), most)) + more


def natural_order(name: str) -> tuple[tuple[int, bytes], ...]:
    """Sort key that puts ``2.sgf`` before ``10.sgf``, in every locale; different names have different keys."""
    whole = os.fsencode(name)
    parts = re.split(rb"(\d+)", whole)
    return (*((int(part), b"") if part.isdigit() else (-1, part) for part in parts), (-1, whole))


def _walk(root: Path, match: str, hidden: Callable[[str], bool]) -> Iterator[tuple[os.DirEntry[str], bool]]:
    """Entries that match a pattern, links to folders that ``**`` would follow, and whether each is hidden.

    Of folders only hidden ones are entries, unless a step of the pattern begins as their name does. An entry that
    cannot be examined is an error.
    """
    steps = [step for step in match.split("/") if step not in ("", ".")]
    if steps[-1:] == ["**"]:
        steps.append("*")
    waiting = [(root, _reached(steps, {0}))]
    while waiting:
        folder, states = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                named = {at + 1 for at in states if _named(entry.name, steps[at])}
                if hidden(entry.name) and not any(steps[at - 1][:1] == entry.name[:1] for at in named):
                    if (entry.is_dir() and (named or any(steps[at] == "**" for at in states))) or len(steps) in named:
                        yield entry, True
                    continue
                within = _reached(steps, named)
                deeper = {at for at in states if steps[at] == "**"}
                if entry.is_dir():
                    linked = entry.is_symlink()
                    if linked and deeper and not within:
                        yield entry, False
                    elif inside := within if linked else within | deeper:
                        waiting.append((Path(entry.path), _reached(steps, inside)))
                elif len(steps) in named:
                    yield entry, False


def _named(name: str, step: str) -> bool:
    return step == "*" or (step != "**" and fnmatchcase(name, step))


def _reached(steps: list[str], states: set[int]) -> set[int]:
    """Steps of a pattern that may come next; ``**`` may match no folder."""
    reached = set(states)
    for at, step in enumerate(steps):
        if step == "**" and at in reached:
            reached.add(at + 1)
    return reached - {len(steps)}
