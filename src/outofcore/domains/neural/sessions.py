"""Group raw files into sessions, and open them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import h5py

from outofcore.domains.neural.params import SourceSection
from outofcore.domains.neural.recordings.arrays import SessionError
from outofcore.domains.neural.recordings.folder import TEXT, FolderRecording, named_files
from outofcore.domains.neural.recordings.hdf5 import Hdf5Recording
from outofcore.domains.neural.recordings.mat import MatRecording
from outofcore.domains.neural.recordings.npy import NpzRecording
from outofcore.domains.neural.recordings.nwb import NwbRecording
from outofcore.domains.neural.recordings.recording import Recording
from outofcore.domains.neural.recordings.zarr import ZarrRecording
from outofcore.raw.files import RawFile, plain_name

Format = Literal["hdf5", "mat", "nwb", "npz", "zarr", "folder", "none"]

SUFFIXES: dict[str, Format] = {".h5": "hdf5", ".hdf5": "hdf5", ".mat": "mat", ".nwb": "nwb", ".npz": "npz"}
FORMATS: dict[Format, type[Any]] = {
    "hdf5": Hdf5Recording,
    "mat": MatRecording,
    "nwb": NwbRecording,
    "npz": NpzRecording,
    "zarr": ZarrRecording,
}
# Names in a store that are not those of parts.
TAKEN = ("train", "val", "test", "sources", "seal.json", "checksums", "zarr.json")


@dataclass(frozen=True)
class Session:
    """A recording of the user's input."""

    name: str  # part of the store
    kind: Format  # format; ``none`` for a file that belongs to no recording
    root: Path  # the file, or the folder
    members: tuple[str, ...]  # files of a folder, relative to it
    source: int  # number of its (first) raw file
    file: str  # name of that file
    bytes: int  # on disk, all files
    others: tuple[int, ...] = ()  # numbers of its further raw files


def find_sessions(files: Sequence[RawFile], source: SourceSection) -> list[Session]:
    """Group raw files into sessions by their first file; a folder is one if it holds a file that ``source`` names."""
    patterns = [named_files(name).parts for name in source.arrays]
    grouped: dict[tuple[Format, Path, str], list[int]] = {}
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


@contextmanager
def opened(session: Session) -> Iterator[Recording]:
    """An open recording, closed on exit; raises SessionError if the file cannot be read at all."""
    if session.kind == "none":
        message = f"{session.file}: no recording of a known format, and no file that source.names means"
        raise SessionError(message, reason="no_recording")
    if session.kind == "folder":
        recording: Recording = FolderRecording(session.root, session.members)
    else:
        recording = FORMATS[format_of(session)](session.root)
    with closing(recording):
        yield recording


def format_of(session: Session) -> Format:
    """The session's kind; since version 7.3, MATLAB writes HDF5."""
    return "hdf5" if session.kind == "mat" and h5py.is_hdf5(session.root) else session.kind


def _place(file: RawFile, patterns: Sequence[tuple[str, ...]]) -> tuple[Format, Path, str]:
    """Format, root and label of the session that a file belongs to."""
    pure = PurePosixPath(file.name)
    # The outermost Zarr folder counts, up to the raw folder itself.
    for depth in range(len(pure.parts), 0, -1):
        if file.path.parents[depth - 1].suffix == ".zarr":
            return "zarr", file.path.parents[depth - 1], _label(pure, depth)
    lowered = file.name.lower()
    for suffix, kind in SUFFIXES.items():
        if lowered.endswith(suffix):
            return kind, file.path, file.name
    for steps in patterns if plain_name(lowered).endswith((".npy", *TEXT)) else ():
        tail = pure.parts[-len(steps) :]
        bare = (*tail[:-1], tail[-1].removesuffix(".npy"))
        if len(tail) == len(steps) and (_fits(tail, steps) or _fits(bare, steps)):
            return "folder", file.path.parents[len(steps) - 1], _label(pure, len(steps))
    return "none", file.path, file.name


def _fits(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    return all(fnmatchcase(part, pattern) for part, pattern in zip(parts, patterns, strict=True))


def _label(name: PurePosixPath, depth: int) -> str:
    """The path of a session's folder: that of the file without its last ``depth`` segments."""
    return "/".join(name.parts[:-depth]) or "session"


def _part_name(label: str) -> str:
    """A label as one path segment that every filesystem and Zarr library accepts."""
    bare = re.sub(r"\.(h5|hdf5|mat|nwb|npz|zarr)$", "", label, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", bare.replace("/", "-")).strip(".") or "session"


def _unused(name: str, taken: set[str]) -> str:
    """The name, numbered if already taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
