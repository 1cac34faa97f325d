"""The pipeline as run, from the lock file: stages in order, with inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outofcore.space.dvc_lock import domain_of, lock_stages

CHECK = "check"
"""The stage that reads and writes digests of code instead of data, not shown."""


@dataclass(frozen=True)
class Item:
    """A file or folder that a stage reads or writes; ``path`` is relative to the project."""

    path: str
    bytes: int
    files: int


@dataclass(frozen=True)
class Step:
    """A stage that ran."""

    name: str  # such as ``convert@chess``
    inputs: tuple[Item, ...]  # data that no stage wrote
    outputs: tuple[Item, ...]


def lanes(lock: Path, own: str, domains: Collection[str] | None = None) -> dict[str, list[Step]]:
    """Steps by domain, each after those whose outputs it reads; ``own``, the report's stage, is left out.

    A lock file may state stages of more than ``domains``, those of the project; None: all are its own.

    A stage without a domain in its name belongs to the only domain that reads its outputs, or else to ``""``. Outputs
    that no stage reads and no lane ends with are left out: a sample where other input is converted. No lock file, no
    lanes.
    """
    stages = {name: stage for name, stage in lock_stages(lock).items() if name.partition("@")[0] != own}
    writers = {out["path"]: name for name, stage in stages.items() for out in stage.get("outs", ())}
    read = {before for name in stages for before in _before(name, stages, writers)}
    depths = {name: _depth(name, stages, writers) for name in stages}
    found: dict[str, list[str]] = {}
    for name in sorted(stages, key=lambda name: (depths[name], name)):
        if name.partition("@")[0] == CHECK:
            continue
        found.setdefault(_domain(name, stages, writers), []).append(name)
    return {
        domain: _lane(
            [_step(name, stages[name], writers) for name in names if name in read or depths[name] == depths[names[-1]]]
        )
        for domain, names in sorted(found.items())
        if domains is None or not domain or domain in domains
    }


def _lane(steps: Sequence[Step]) -> list[Step]:
    """Consecutive steps; an input read by several is listed with the first."""
    shown: set[Item] = set()
    lane = []
    for step in steps:
        lane.append(replace(step, inputs=tuple(item for item in step.inputs if item not in shown)))
        shown.update(step.inputs)
    return lane


def _before(name: str, stages: Mapping[str, Any], writers: Mapping[str, str]) -> set[str]:
    """Stages whose outputs a stage reads."""
    return {writer for dep in stages[name].get("deps", ()) for writer in _writers_of(dep["path"], writers)}


def _writers_of(path: str, writers: Mapping[str, str]) -> list[str]:
    """Stages that write a file or folder, or in it."""
    return [writer for written, writer in writers.items() if f"{written}/".startswith(f"{path}/")]


def _depth(name: str, stages: Mapping[str, Any], writers: Mapping[str, str]) -> int:
    return 1 + max((_depth(before, stages, writers) for before in _before(name, stages, writers)), default=0)


def _domain(name: str, stages: Mapping[str, Any], writers: Mapping[str, str]) -> str:
    if "@" in name:
        return domain_of(name)
    readers = {domain_of(other) for other in stages if name in _before(other, stages, writers)}
    return readers.pop() if len(readers) == 1 else ""


def _step(name: str, stage: Mapping[str, Any], writers: Mapping[str, str]) -> Step:
    deps = [dep for dep in stage.get("deps", ()) if not dep["path"].endswith(".py")]
    inputs = [dep for dep in deps if not _writers_of(dep["path"], writers)]
    return Step(name, tuple(map(_item, inputs)), tuple(map(_item, stage.get("outs", ()))))


def _item(entry: Mapping[str, Any]) -> Item:
    return Item(str(entry["path"]), int(entry.get("size", 0)), int(entry.get("nfiles", 1)))
