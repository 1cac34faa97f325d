"""Conversions that lose their power; needs ``strace``.

A conversion over an earlier store is recorded, system call by system call. Then the disk is made as it may be found
when the power fails after any of them: what was synced is there; of what was not, names are those of some moment (a
journal) or of chance, and bytes are there, lost, cut or zero. On each such disk the store is opened and read whole, and
the conversion is run again.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.pipeline.kill_runs import conversion
from tests.pipeline.workplace import make_workplace

SECONDS = 0.05
CALLS = (
    "openat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat,lseek,write,"
    "pwrite64,writev,pwritev,ftruncate,truncate,fallocate,copy_file_range,sendfile,fsync,fdatasync"
)
UNKNOWN = {"link", "linkat", "symlink", "symlinkat", "writev", "pwritev", "truncate", "fallocate", "copy_file_range"}
_CALL = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed>)(.*)")
_FD = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>")


@dataclass
class Event:
    """A call that changed the disk: names of files by number, their bytes, or a sync of one of them."""

    kind: str  # create, mkdir, rename, remove, write, cut, sync
    paths: tuple[str, ...] = ()
    file: int = -1
    offset: int = 0
    content: bytes = b""

    def change(self, held: bytearray, content: bytes) -> None:
        """Write this content, or cut what the file holds."""
        if self.kind == "cut":
            del held[self.offset :]
        elif self.kind == "write":
            held.extend(bytes(max(0, self.offset - len(held))))
            held[self.offset : self.offset + len(content)] = content


@dataclass
class Recorded:
    """The calls of a run below a folder; files have numbers, whatever they are called."""

    folder: str
    events: list[Event] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    begun: dict[int, bytes] = field(default_factory=dict)  # what files held at the start

    def __post_init__(self) -> None:
        for path in Path(self.folder).rglob("*"):
            if path.is_file():
                self.names[str(path)] = len(self.begun)
                self.begun[len(self.begun)] = path.read_bytes()
        self.first_names = dict(self.names)
        self.first_folders = {self.folder, *(str(path) for path in Path(self.folder).rglob("*") if path.is_dir())}

    def read(self, lines: list[str]) -> None:
        """Take what strace wrote; a call that others interrupted counts when it returns."""
        waiting: dict[str, str] = {}
        places: dict[str, int] = {}  # of open files, by path
        for line in lines:
            call = _CALL.match(line)
            if not call:
                continue
            pid, name, rest = call.groups()
            if rest.endswith("<unfinished ...>"):
                waiting[pid] = rest.removesuffix("<unfinished ...>")
                continue
            rest = waiting.pop(pid, "") + rest if "resumed>" in line else rest
            if not re.search(r"\) += \d", rest):
                continue
            self._take(name, rest, places)

    def _take(self, name: str, rest: str, places: dict[str, int]) -> None:
        opened = [plain(each) for each in _FD.findall(rest)]
        given = [plain(each) for each in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', rest)] if "write" not in name else []
        bases = (
            opened or [str(Path(self.folder).parent)]
        ) * 2  # calls without a folder are of the process's, its parent
        given = [str(Path(base, each)) for base, each in zip(bases, given, strict=False)]
        paths = tuple(os.path.normpath(each) for each in (given or opened[:1]))
        if not any(path.startswith(self.folder + "/") for path in paths):
            return
        assert name not in UNKNOWN, f"{name} {rest[:200]}"
        result = int(re.findall(r"\) += (\d+)", rest)[-1])
        path = paths[0]
        if name == "openat":
            places[path] = 0
            if "O_CREAT" in rest and path not in self.names:
                number = self.names[path] = len(self.begun)
                self.begun[number] = b""
                self.events.append(Event("create", (path,), number))
            elif "O_TRUNC" in rest:
                self.events.append(Event("cut", file=self.names[path]))
        elif name.startswith("mkdir"):
            self.events.append(Event("mkdir", (path,)))
        elif name.startswith("rename"):
            below = {old: path + "/" for old in self.names for path in paths[:1] if old.startswith(path + "/")}
            for old in below:
                self.names[paths[1] + old.removeprefix(paths[0])] = self.names.pop(old)
            if paths[0] in self.names:
                self.names[paths[1]] = self.names.pop(paths[0])
            self.events.append(Event("rename", paths))
        elif name in ("unlink", "unlinkat", "rmdir"):
            self.names.pop(path, None)
            self.events.append(Event("remove", (path,)))
        elif name == "lseek":
            places[path] = result
        elif name in ("write", "pwrite64"):
            content = bytes.fromhex(re.findall(r'"((?:\\x[0-9a-f]{2})*)"', rest)[-1].replace("\\x", ""))[:result]
            offset = int(re.findall(r", (\d+) *\) +=", rest)[-1]) if name == "pwrite64" else places.get(path, 0)
            places[path] = offset + len(content) if name == "write" else places.get(path, 0)
            self.events.append(Event("write", file=self.names[path], offset=offset, content=content))
        elif name == "sendfile":
            begin, source = places.get(path, 0), os.path.normpath(opened[1])
            content = self._content(self.names[source])[places.get(source, 0) :][:result]
            places[path], places[source] = begin + result, places.get(source, 0) + result
            self.events.append(Event("write", file=self.names[path], offset=begin, content=content))
        elif name == "ftruncate":
            length = int(re.findall(r", (\d+) *\) +=", rest)[-1])
            self.events.append(Event("cut", file=self.names[path], offset=length))
        elif name in ("fsync", "fdatasync"):
            self.events.append(Event("sync", (path,), self.names.get(path, -1)))

    def _content(self, file: int) -> bytes:
        content = bytearray(self.begun[file])
        for event in self.events:
            if event.file == file:
                event.change(content, event.content)
        return bytes(content)


def plain(text: str) -> str:
    """A string that strace wrote in hexadecimal."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), text)


def disk_after(recorded: Recorded, stop: int, dice: random.Random) -> None:
    """Make the folder as the disk may be after a power loss behind so many events."""
    happened = recorded.events[:stop]
    synced_folders = {path: at for at, event in enumerate(happened) if event.kind == "sync" for path in event.paths}
    synced_files = {event.file: at for at, event in enumerate(happened) if event.kind == "sync"}
    named = [at for at, event in enumerate(happened) if event.kind in ("create", "mkdir", "rename", "remove")]
    # A rename is there once the folder of the new name was synced, whatever the thing was called in between.
    sure: set[int] = set()
    needed: set[str] = set()
    for at in reversed(named):
        name = happened[at].paths[-1]
        if name in needed or synced_folders.get(str(Path(name).parent), -1) > at:
            sure.add(at)
            needed.discard(name)
            needed.update(happened[at].paths[:-1])
    if dice.random() < 0.7:  # a journal: everything up to some moment
        last = dice.choice([at for at in named if at >= max(sure, default=-1)] or [-1])
        kept = {at for at in named if at <= last}
    else:
        kept = {at for at in named if at in sure or dice.random() < 0.5}
    names, folders = dict(recorded.first_names), set(recorded.first_folders)
    for at in sorted(kept):
        apply(happened[at], names, folders)
    shutil.rmtree(recorded.folder)
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
    for name, number in names.items():
        content = bytearray(recorded.begun[number])
        for at, event in enumerate(happened):
            if event.file != number or event.kind not in ("write", "cut"):
                continue
            fate = "there" if synced_files.get(number, -1) > at else dice.choice(["there", "lost", "cut", "zero"])
            some = event.content[: dice.randrange(len(event.content) + 1)] if fate == "cut" else event.content
            if fate != "lost":
                event.change(content, bytes(len(some)) if fate == "zero" else some)
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)


def apply(event: Event, names: dict[str, int], folders: set[str]) -> None:
    """Change names as a call did, where what it needs is there."""
    path = event.paths[0]
    if event.kind == "create" and str(Path(path).parent) in folders:
        names[path] = event.file
    elif event.kind == "mkdir" and str(Path(path).parent) in folders:
        folders.add(path)
    elif event.kind == "remove":
        names.pop(path, None)
        if not any(each.startswith(path + "/") for each in (*names, *folders)):
            folders.discard(path)
    elif event.kind == "rename":
        new = event.paths[1]
        if not any(each == path or each.startswith(path + "/") for each in (*names, *folders)):
            return
        for old in [each for each in names if each == new or each.startswith(new + "/")]:
            del names[old]  # a name leads to one thing
        for old in [each for each in names if each == path or each.startswith(path + "/")]:
            names[new + old.removeprefix(path)] = names.pop(old)
        for old in [each for each in folders if each == path or each.startswith(path + "/")]:
            folders.add(new + old.removeprefix(path))
            folders.discard(old)


class Losses:
    """A recorded conversion of one domain in a folder, and disks made of it."""

    def __init__(self, top: Path, domain: str) -> None:
        self.place = place = make_workplace(top / "place", domain, files=3)
        place.set("match", "0/**/*")
        place.run("convert")
        self.digests = {"", place.standing()}
        place.set("match", "**/*")
        self.recorded = Recorded(str(place.folder / "data"))
        trace = top / "trace"
        command = ["strace", "-f", "-y", "-xx", "-s", "100000000", "-e", f"trace={CALLS}", "-o", str(trace)]
        subprocess.run(
            [*command, *place.command("convert", SECONDS)],
            cwd=place.folder,
            env=place.environment(),
            check=True,
            capture_output=True,
        )
        self.recorded.read(trace.read_text().splitlines())
        self.expected = place.left()
        self.digests.add(place.standing())

    def lose(self, dice: random.Random) -> None:
        """Make a disk, check that a whole store or none is on it, and run the conversion again."""
        disk_after(self.recorded, dice.randrange(len(self.recorded.events) + 1), dice)
        assert self.place.standing() in self.digests
        ended = conversion(self.place, SECONDS).ended(300)
        assert ended.returncode == 0, ended.stderr
        assert self.place.left() == self.expected
