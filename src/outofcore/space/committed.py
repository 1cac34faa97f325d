"""Check that DVC's cache really holds what its lock files state, as far as it was run or pulled here.

DVC exits with code 0 even when the cache's filesystem was full: the lock file then lists objects that the cache lacks.
If its own filesystem was full, the lock file itself may be truncated.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from outofcore.errors import ParamsError
from outofcore.sizes import format_bytes
from outofcore.space.dvc_cache import REMOVE_OLD, DvcCache, find_cache
from outofcore.space.dvc_lock import UNREADABLE, Stated, lock_files, lock_stages, stated_outputs

CURE = (
    "make room, then 'dvc commit' puts into the cache what is in the workspace; "
    "'dvc pull' fetches what a remote has; else 'dvc repro' makes it again"
)


@dataclass(frozen=True)
class Output:
    """An output in a lock file, and whether the cache has it."""

    stage: str  # the stage or ``.dvc`` file
    path: str  # relative to the project
    bytes: int  # as stated
    files: int  # number, as stated
    problem: str  # "" if all of it is in the cache
    here: bool  # whether it was ever written or pulled here


@dataclass(frozen=True)
class Committed:
    """The state of a project's cache compared with its lock files."""

    outputs: tuple[Output, ...]  # without those of absent stages
    absent: tuple[str, ...]  # stages never run or pulled here
    problems: tuple[str, ...]  # one line each
    unfinished: tuple[int, int]  # number and bytes of partial copies that DVC left in the cache
    unshared: tuple[str, ...]  # inputs in the project that neither DVC nor Git keeps


def committed(folder: str | Path = ".", stages: Sequence[str] = ()) -> Committed:
    """Compare ``dvc.lock`` and ``.dvc`` files with the cache: every object, and total sizes.

    ``folder`` is any folder of the project. A lock file from Git also states what only others have run: without
    ``stages``, a stage of which nothing is here is absent; it is a problem only if that holds of all stages. A stage in
    ``stages`` must be here. Raises ParamsError outside a DVC project or for an unknown stage.
    """
    cache = find_cache(folder)
    if cache is None:
        message = f"{Path(folder).resolve()}: expected a DVC project, found no .dvc folder here or above"
        raise ParamsError(message)
    outputs: list[Output] = []
    problems: list[str] = []
    for file in lock_files(cache.project):
        try:
            outputs += [_checked(stated, cache) for stated in stated_outputs(file)]
        except UNREADABLE as error:
            name = file.relative_to(cache.project).as_posix()
            reason = " ".join(str(error).split()) if isinstance(error, ValueError) else "keys are missing"
            problems.append(
                f"{name} is not whole ({reason}), as after a disk that ran full; 'git checkout {name}' brings the last "
                "committed one back; then make room and run 'dvc repro'"
            )
    if stages:
        unknown = sorted(set(stages) - {each.stage for each in outputs})
        if unknown and not problems:
            known = ", ".join(dict.fromkeys(each.stage for each in outputs)) or "no stage yet"
            message = f"no lock file states an output of {', '.join(unknown)}; stated are {known}"
            raise ParamsError(message)
        outputs = [each for each in outputs if each.stage in stages]
    here = {each.stage for each in outputs if each.here} | set(stages)
    absent = tuple(dict.fromkeys(each.stage for each in outputs if each.stage not in here))
    outputs = [each for each in outputs if each.stage in here]
    if absent and not outputs:
        problems.append(
            "nothing that dvc.lock states is here, neither in the cache nor in the workspace: 'dvc pull' fetches "
            "what a remote has; else 'dvc repro' makes it again"
        )
    problems += [f"{each.path} of {each.stage}: {each.problem}; {CURE}" for each in outputs if each.problem]
    unfinished = _unfinished(cache)
    if unfinished[0] and problems:
        problems.append(
            f"{cache.folder} holds {unfinished[0]} copies that were cut short ({format_bytes(unfinished[1])}); "
            f"{REMOVE_OLD} removes them"
        )
    return Committed(tuple(outputs), absent, tuple(problems), unfinished, _unshared(cache.project, here))


def _checked(stated: Stated, cache: DvcCache) -> Output:
    place = stated.base / stated.path
    path = os.path.relpath(place, cache.project)
    # Two stages may write equal files, such as empty tables, but hardly equal folders.
    cached = stated.digest.endswith(".dir") and cache.object(stated.digest).exists()
    here = cached or os.path.lexists(place)
    return Output(stated.stage, path, stated.bytes, stated.files, _missing(cache, stated), here)


def _missing(cache: DvcCache, stated: Stated) -> str:
    """What the cache lacks of an output, or ""."""
    digests = [stated.digest]
    if stated.digest.endswith(".dir"):
        listing = cache.object(stated.digest)
        try:
            digests = [entry["md5"] for entry in json.loads(listing.read_bytes())]
        except FileNotFoundError:
            return f"the cache {cache.folder} lacks its list of files"
        except (ValueError, KeyError, TypeError):
            return f"its list of files in the cache, {listing}, is damaged"
    sizes = [_size(cache.object(each)) for each in digests]
    if lacking := sum(each is None for each in sizes):
        return f"the cache {cache.folder} lacks {lacking} of its {len(digests)} files"
    held = sum(each or 0 for each in sizes)
    if held != stated.bytes:
        return f"the cache {cache.folder} holds {held} bytes of it, stated are {stated.bytes}"
    return ""


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _unshared(project: Path, stages: Collection[str]) -> tuple[str, ...]:
    """Inputs of stages that Git ignores and DVC does not keep, so that a clone of the project lacks them."""
    read: list[Path] = []
    kept: list[Path] = []
    for file in lock_files(project):
        try:
            kept += [stated.base / stated.path for stated in stated_outputs(file)]
            found = lock_stages(file) if file.name == "dvc.lock" else {}
            read += [
                file.parent / each["path"] for name in found if name in stages for each in found[name].get("deps", ())
            ]
        except UNREADABLE:  # named among the problems
            continue
    lost = [
        path
        for path in dict.fromkeys(map(Path, map(os.path.normpath, read)))
        if path.is_relative_to(project) and not any(path == each or each in path.parents for each in kept)
    ]
    return tuple(path.relative_to(project).as_posix() for path in lost if _is_ignored(path, project))


def _is_ignored(path: Path, project: Path) -> bool:
    """Whether Git ignores a path; False without Git."""
    git = shutil.which("git")
    command = [git or "git", "check-ignore", "--quiet", "--", str(path)]
    return git is not None and subprocess.run(command, cwd=project, capture_output=True, check=False).returncode == 0  # noqa: S603


def _unfinished(cache: DvcCache) -> tuple[int, int]:
    sizes = [_size(path) or 0 for path in cache.objects.rglob(".*.tmp")]
    return len(sizes), sum(sizes)
