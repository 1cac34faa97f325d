"""The formats of recordings; raw files grouped into sessions, and how one is opened."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path, PurePosixPath
from pkgutil import iter_modules

from outofcore.display.table import DisplayTable, columns
from outofcore.domains.neural import recordings
from outofcore.domains.neural.params import SourceSection
from outofcore.domains.neural.recordings.arrays import SessionError
from outofcore.domains.neural.recordings.folder import FolderRecording
from outofcore.domains.neural.recordings.recording import Recording, split_column
from outofcore.raw.files import RawFile, plain_name

# Names in a store that are not those of parts.
TAKEN = ("train", "val", "test", "sources", "seal.json", "checksums", "zarr.json")


def _formats() -> dict[str, type[Recording]]:
    """Every subclass of ``Recording`` in the folder ``recordings`` that has a word for its format."""
    modules = [import_module(f"{recordings.__name__}.{module.name}") for module in iter_modules(recordings.__path__)]
    classes = [kind for module in modules for _, kind in getmembers(module, isclass) if issubclass(kind, Recording)]
    return {kind.format: kind for kind in classes if kind.format}


FORMATS = _formats()
"""Classes by format, in order of their modules' names."""

SUFFIXES = {suffix: kind.format for kind in FORMATS.values() for suffix in kind.suffixes}
"""The format of files that are a session each, by their ending."""

FOLDERS = {kind.folder_suffix: kind.format for kind in FORMATS.values() if kind.folder_suffix}
"""The format of folders that are a session each, by their ending."""

NAMES = tuple(
    dict.fromkeys((*SUFFIXES, *FOLDERS, *(suffix for kind in FORMATS.values() for suffix in kind.member_suffixes)))
)
"""Endings of all files that belong to a recording."""


@dataclass(frozen=True)
class Session:
    """A recording of the user's input."""

    name: str  # part of the store
    kind: str  # its format; ``none`` for a file that belongs to no recording
    root: Path  # the file, or the folder
    members: tuple[str, ...]  # files of a folder, relative to it
    source: int  # number of its (first) raw file
    file: str  # name of that file
    bytes: int  # on disk, all files
    others: tuple[int, ...] = ()  # numbers of its further raw files


def find_sessions(files: Sequence[RawFile], source: SourceSection) -> list[Session]:
    """Group raw files into sessions by their first file; a folder is one if it holds a file that ``source`` names."""
    patterns = [PurePosixPath(split_column(name)[0]).parts for name in source.arrays]
    grouped: dict[tuple[str, Path, str], list[int]] = {}
    for number, file in enumerate(files):
        grouped.setdefault(_place(file, patterns), []).append(number)
    sessions: list[Session] = []
    for (kind, root, label), numbers in grouped.items():
        members = tuple(files[number].path.relative_to(root).as_posix() for number in numbers if root.is_dir())
        name = _unused(_part_name(label), {session.name for session in sessions} | set(TAKEN))
        size = sum(files[number].bytes for number in numbers)
        first, *others = numbers
        sessions.append(Session(name, kind, root, members, first, files[first].name, size, tuple(others)))
    return sessions


def open_recording(session: Session) -> Recording:
    """Open the files of a session; raises SessionError if they cannot be read at all."""
    if session.kind == "none":
        raise SessionError(
            "no_recording", f"{session.file}: no recording of a known format, and no file that source.names means"
        )
    return FORMATS[session.kind].open(session.root, session.members)


def arrays_table(path: Path) -> DisplayTable | None:
    """The arrays of a file by their names in ``source.names``; None if it is no session. Raises SessionError."""
    kind = next((kind for suffix, kind in SUFFIXES.items() if path.name.lower().endswith(suffix)), None)
    if kind is None:
        return None
    recording = FORMATS[kind].open(path, ())
    rows = []
    for name in recording.names():
        with suppress(SessionError):  # neither numbers nor words
            array = recording.array(name)
            dtype = "text" if array.dtype.kind in "OUS" else str(array.dtype)
            rows.append((name, dtype, " x ".join(map(str, array.shape)) or "one"))
    notes = ("for source.names, which also take a group, such as intervals/trials or units",)
    return DisplayTable(columns("text", "name", "type", "shape"), rows, notes=notes)


def _place(file: RawFile, patterns: Sequence[tuple[str, ...]]) -> tuple[str, Path, str]:
    """Format, root and label of the session that a file belongs to."""
    pure = PurePosixPath(file.name)
    # The outermost folder counts, up to the raw folder itself.
    for depth in range(len(pure.parts), 0, -1):
        parent = file.path.parents[depth - 1]
        if parent.suffix in FOLDERS:
            return FOLDERS[parent.suffix], parent, _label(pure, depth)
    lowered = file.name.lower()
    for suffix, kind in SUFFIXES.items():
        if lowered.endswith(suffix):
            return kind, file.path, file.name
    for steps in patterns if plain_name(lowered).endswith(FolderRecording.member_suffixes) else ():
        tail = pure.parts[-len(steps) :]
        bare = (*tail[:-1], tail[-1].removesuffix(".npy"))
        if len(tail) == len(steps) and (_fits(tail, steps) or _fits(bare, steps)):
            return FolderRecording.format, file.path.parents[len(steps) - 1], _label(pure, len(steps))
    return "none", file.path, file.name


def _fits(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    return all(fnmatchcase(part, pattern) for part, pattern in zip(parts, patterns, strict=True))


def _label(name: PurePosixPath, depth: int) -> str:
    """The path of a session's folder: that of the file without its last ``depth`` segments."""
    return "/".join(name.parts[:-depth]) or "session"


def _part_name(label: str) -> str:
    """A label as one path segment that every filesystem and Zarr library accepts."""
    ending = next((suffix for suffix in (*SUFFIXES, *FOLDERS) if label.lower().endswith(suffix)), "")
    bare = label[: len(label) - len(ending)]
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", bare.replace("/", "-")).strip(".") or "session"


def _unused(name: str, taken: set[str]) -> str:
    """The name, numbered if already taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
