"""What a project no longer needs on disk: objects of DVC's cache, and what stopped runs have left.

DVC decides which objects are needed. It does not know of stages that run: what they have made so far belongs to no
commit yet, so nothing is removed while one runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import psutil

from outofcore.durable import MARK, WorkFolder
from outofcore.errors import OutOfCoreError, ParamsError
from outofcore.space.dvc_cache import DvcCache, find_cache
from outofcore.space.filesystems import folder_bytes

# Next to stores: work folders of conversions, and stores on their way to their place. Next to models: checkpoints.
UNFINISHED = ("data/stores/*.zarr.work*", "data/stores/*/*.zarr.work*", "data/streams/*.zarr.work*", "models/*.partial")

# Commands of DVC that run stages: repro, exp run, and what they start for experiments.
_STARTS = {"repro", "run", "exec-run", "queue-worker"}
_FIRST_WORDS = 6  # options such as --cd FOLDER may come before them


@dataclass(frozen=True)
class Item:
    """A folder that could be removed."""

    path: str  # relative to the project
    bytes: int  # that its removal frees
    what: str


@dataclass(frozen=True)
class Garbage:
    """What nothing needs."""

    objects: tuple[str, ...]  # files in DVC's cache
    bytes: int  # of the objects
    leftovers: tuple[Item, ...]  # of interrupted runs
    resumable: tuple[Item, ...]  # of stopped runs, which the same command resumes; kept unless they are asked for
    outside: str  # the cache, if it is outside of the project, where other projects may use it; else ""

    @property
    def freed(self) -> int:
        """Bytes of all that is removed."""
        return self.bytes + sum(item.bytes for item in self.leftovers)


def find_garbage(
    folder: str | Path = ".", *, tips: bool = False, unfinished: bool = False, projects: Sequence[Path] = ()
) -> Garbage:
    """What no commit, branch, tag, experiment or running stage of the project needs; nothing is removed.

    ``tips`` keeps what the last commits of branches and tags need, not what those before them need. ``unfinished``
    counts what stopped runs would resume from among the leftovers. ``projects`` are others that use the same cache.
    Raises ParamsError outside a DVC project, OutOfCoreError while a stage runs or if DVC cannot tell.
    """
    cache = _cache(folder)
    _refuse_running(cache)
    told = _gc(cache, tips, projects, "--dry")
    objects = [Path(name) for name in re.findall(r"^Removing (.+)$", told, re.MULTILINE)]
    found = [(path, path.lstat()) for path in objects if path.exists()]
    resumable = [
        Item(path.relative_to(cache.project).as_posix(), folder_bytes(path), "of a stopped run; 'dvc repro' resumes it")
        for pattern in UNFINISHED
        for path in sorted(cache.project.glob(pattern))
    ]
    leftovers = [
        Item(path.relative_to(cache.project).as_posix(), folder_bytes(path), "of an experiment that was killed")
        for path in _workspaces(cache)
    ]
    return Garbage(
        tuple(map(str, objects)),
        sum(facts.st_size for _, facts in found if facts.st_nlink == 1),
        tuple([*leftovers, *resumable] if unfinished else leftovers),
        () if unfinished else tuple(resumable),
        "" if cache.folder.is_relative_to(cache.project) else str(cache.folder),
    )


def remove(garbage: Garbage, folder: str | Path = ".", *, tips: bool = False, projects: Sequence[Path] = ()) -> None:
    """Remove it; raises OutOfCoreError if a stage has begun meanwhile, or uses one of the folders."""
    cache = _cache(folder)
    _refuse_running(cache)
    for item in garbage.leftovers:
        _refuse_used(cache.project / item.path)
    if garbage.objects:
        _gc(cache, tips, projects, "--force")
    for item in garbage.leftovers:
        shutil.rmtree(cache.project / item.path)


def _cache(folder: str | Path) -> DvcCache:
    cache = find_cache(folder)
    if cache is None:
        message = f"{Path(folder).resolve()}: expected a DVC project, found no .dvc folder here or above"
        raise ParamsError(message)
    return cache


def _gc(cache: DvcCache, tips: bool, projects: Sequence[Path], how: str) -> str:  # noqa: FBT001 - of this module
    kept: tuple[str, ...] = ()
    if any((place / ".git").exists() for place in (cache.project, *cache.project.parents)):
        kept = ("--all-experiments", *(("--all-branches", "--all-tags") if tips else ("--all-commits",)))
    others = [each for path in projects for each in ("--projects", str(path.resolve()))]
    command = [sys.executable, "-m", "dvc", "gc", "--workspace", *kept, *others, how]
    ended = subprocess.run(command, cwd=cache.project, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")] or [ended.stderr]
        message = f"'dvc gc' cannot tell what is needed: {lines[0].removeprefix('ERROR: ')}; nothing was removed"
        raise OutOfCoreError(message)
    return ended.stdout


def _workspaces(cache: DvcCache) -> list[Path]:
    """Workspaces of experiments; DVC removes them at their end."""
    found = (*cache.experiments.glob("*/.dvc"), *cache.experiments.glob("*/*/.dvc"))
    return sorted(path.parent for path in found)


def _refuse_running(cache: DvcCache) -> None:
    for command in _running(cache):
        message = (
            f"{command} is running, and what it makes belongs to no commit yet: nothing is removed; wait for its end"
        )
        raise OutOfCoreError(message)


def _running(cache: DvcCache) -> Iterator[str]:
    """Commands of DVC that run a stage here, or in the workspace of an experiment."""
    spaces = _workspaces(cache)
    for place in (cache.project, *spaces):
        try:
            held = json.loads((place / ".dvc" / "tmp" / "rwlock").read_text("utf-8"))
            entries = chain(held.get("write", {}).values(), *held.get("read", {}).values())
            yield from (entry["cmd"] for entry in entries if _is_dvc(entry["pid"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or one that DVC is writing
            continue
    project = os.path.realpath(cache.project)
    for process in psutil.process_iter(["cwd", "cmdline"]):
        at, command = process.info["cwd"], process.info["cmdline"] or []
        # Before its first lock, DVC has only a process: --temp stashes, clones and checks out for seconds.
        begins = at and Path(at).is_relative_to(project) and _STARTS & set(_arguments(command)[:_FIRST_WORDS])
        if begins or (at and any(Path(at).is_relative_to(os.path.realpath(space)) for space in spaces)):
            yield " ".join(command or [process.name()])


def _is_dvc(number: int) -> bool:
    """Whether a process runs and is DVC; another may have got the number of one that was killed."""
    try:
        return bool(_arguments(psutil.Process(number).cmdline()))
    except psutil.Error:
        return False


def _arguments(command: Sequence[str]) -> Sequence[str]:
    """The arguments of a command of DVC, ``dvc ...`` or ``python -m dvc ...``; empty for others."""
    place = next((place for place, part in enumerate(command[:3]) if Path(part).name == "dvc"), len(command))
    return command[place + 1 :]


def _refuse_used(folder: Path) -> None:
    """Raise OutOfCoreError if a conversion or training that DVC did not start holds the lock of its folder."""
    if not (folder / MARK).is_file():
        return
    with WorkFolder(folder, f"{folder}: a conversion or training is working there; nothing was removed"):
        pass
