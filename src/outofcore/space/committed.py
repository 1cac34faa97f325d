"""Whether DVC's cache really holds what its lock files state.

DVC ends a run with exit code 0 when the cache's filesystem was full: the lock file then states what the cache does not
hold. When its own filesystem was full, the lock file itself may be cut off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outofcore.errors import ParamsError
from outofcore.sizes import format_bytes
from outofcore.space.dvc_cache import DvcCache, find_cache
from outofcore.space.dvc_lock import UNREADABLE, Stated, lock_files, stated_outputs

CURE = (
    "make room, then 'dvc commit' puts into the cache what stands in the workspace; "
    "'dvc pull' fetches what a remote has; else 'dvc repro' makes it again"
)


@dataclass(frozen=True)
class Output:
    """What a lock file states of an output, and whether the cache has it.

    Attributes
    ----------
    stage
        The stage, or the ``.dvc`` file, that states it.
    path
        The output, relative to the project.
    bytes, files
        Its size and number of files, as stated.
    problem
        What is wrong; "" if all of it is in the cache.
    """

    stage: str
    path: str
    bytes: int
    files: int
    problem: str


@dataclass(frozen=True)
class Committed:
    """The state of a project's cache against its lock files.

    Attributes
    ----------
    outputs
        Every output that is stated.
    problems
        One line for each thing that is wrong; empty if the cache holds everything.
    unfinished
        Number and bytes of copies that were cut short and that DVC left in the cache.
    """

    outputs: tuple[Output, ...]
    problems: tuple[str, ...]
    unfinished: tuple[int, int]


def committed(folder: str | Path = ".", stages: Sequence[str] = ()) -> Committed:
    """Compare what ``dvc.lock`` and ``.dvc`` files state with what the cache holds: every object, and the sizes' sum.

    Parameters
    ----------
    folder
        Any folder of the project.
    stages
        Only what these state, by their names in ``dvc.lock``; none: all.

    Raises
    ------
    ParamsError
        If it lies in no DVC project, or no lock file knows a stage.
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
    problems += [f"{each.path} of {each.stage}: {each.problem}; {CURE}" for each in outputs if each.problem]
    unfinished = _unfinished(cache)
    if unfinished[0] and problems:
        problems.append(
            f"{cache.folder} holds {unfinished[0]} copies that were cut short ({format_bytes(unfinished[1])}); "
            "'dvc gc -w' removes them"
        )
    return Committed(tuple(outputs), tuple(problems), unfinished)


def _checked(stated: Stated, cache: DvcCache) -> Output:
    path = os.path.relpath(stated.base / stated.path, cache.project)
    return Output(stated.stage, path, stated.bytes, stated.files, _missing(cache, stated))


def _missing(cache: DvcCache, stated: Stated) -> str:
    """What of an output the cache lacks; "" if nothing."""
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


def _unfinished(cache: DvcCache) -> tuple[int, int]:
    sizes = [_size(path) or 0 for path in cache.objects.rglob(".*.tmp")]
    return len(sizes), sum(sizes)
