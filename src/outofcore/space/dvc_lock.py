"""What DVC's lock files state: outputs with size and digest, and the stages that made them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from outofcore.errors import ParamsError

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError)
"""Raised when reading a truncated or damaged lock file."""


@dataclass(frozen=True)
class Stated:
    """An output kept in DVC's cache, as stated in a lock file."""

    stage: str  # the stage or ``.dvc`` file
    path: str  # as in the file, relative to ``base``
    base: Path  # the stage's working folder
    digest: str  # MD5 of a file, or of a folder's list of files with ``.dir`` appended
    bytes: int
    files: int


def lock_files(project: Path) -> Iterator[Path]:
    """``dvc.lock`` and ``*.dvc`` files, sorted; stores, hidden folders and nested projects are skipped."""
    for folder, folders, files in os.walk(project):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and not name.endswith((".zarr", ".zarr.work"))
            and not Path(folder, name, ".dvc").is_dir()
        )
        for name in sorted(files):
            if name == "dvc.lock" or (name.endswith(".dvc") and name != ".dvc"):
                yield Path(folder, name)


def stated_outputs(file: Path) -> list[Stated]:
    """The cached outputs of a lock file, except those at a URL; raises one of :data:`UNREADABLE`."""
    text = file.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        message = "its last line has no end"
        raise ValueError(message)
    content = yaml.safe_load(text)
    if file.name != "dvc.lock":
        base = file.parent / content.get("wdir", ".")
        cached = [out for out in content["outs"] if out.get("cache", True) and "md5" in out]
        return [_stated(file.name, base, out) for out in cached]
    if content["schema"] != "2.0":
        message = f"expected schema 2.0, got {content['schema']}"
        raise ValueError(message)
    stages = _stages(file.with_name("dvc.yaml"))
    found = []
    for name, stage in content["stages"].items():
        definition = stages.get(name.partition("@")[0])
        if definition is None or not _is_defined(name, definition):  # of a removed stage; DVC skips it as well
            continue
        definition = definition.get("do", definition)
        base = file.parent / _wdir(definition)
        outs, named = stage.get("outs", []), len(_entries(definition))
        if len(outs) != named:
            message = f"it states {len(outs)} of the {named} outputs of stage {name} in dvc.yaml"
            raise ValueError(message)
        uncached = _uncached(definition)
        found += [
            _stated(name, base, out)
            for out in outs
            if "://" not in out["path"] and not any(re.fullmatch(pattern, out["path"]) for pattern in uncached)
        ]
    return found


def domain_of(stage: str) -> str:
    """The domain in the name of a stage, ``train@chess`` or ``convert-chess@2024-01``; "" if there is none."""
    group, _, key = stage.partition("@")
    return group.removeprefix("convert-") if group.startswith("convert-") else key


def lock_stages(lock: Path) -> dict[str, Any]:
    """The stages of a lock file as it states them; none before the first run."""
    return stages_in(lock.read_text(encoding="utf-8")) if lock.is_file() else {}


def stages_in(text: str) -> dict[str, Any]:
    """The stages that the text of a lock file states."""
    return (yaml.safe_load(text) or {}).get("stages") or {}


def stated_bytes(project: Path) -> int:
    """Bytes of all outputs in ``dvc.lock``, as checked out by a fresh workspace; 0 if unreadable."""
    try:
        return sum(stated.bytes for stated in stated_outputs(project / "dvc.lock"))
    except (OSError, ParamsError, *UNREADABLE):
        return 0


def _stated(stage: str, base: Path, out: dict[str, Any]) -> Stated:
    digest = out["md5"]
    files = int(out["nfiles"]) if digest.endswith(".dir") else 1
    return Stated(stage, out["path"], base, digest, int(out["size"]), files)


def _stages(file: Path) -> dict[str, dict[str, Any]]:
    """Stages of a ``dvc.yaml`` by name, as they are written."""
    if not file.exists():
        return {}
    try:
        stages = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("stages") or {}
        return {name: dict(stage) for name, stage in stages.items()}
    except UNREADABLE as error:
        message = f"{file}: expected stages as DVC reads them, {' '.join(str(error).split())}"
        raise ParamsError(message) from error


def _is_defined(name: str, definition: dict[str, Any]) -> bool:
    """Whether a stage ``template@item`` is among the items of its template, where those are written out."""
    items = definition.get("foreach")
    _, of_template, item = name.partition("@")
    return not of_template or not isinstance(items, dict) or item in map(str, items)


def _wdir(definition: dict[str, Any]) -> str:
    wdir = str(definition.get("wdir", "."))
    return "." if "${" in wdir else wdir


def _entries(definition: dict[str, Any]) -> list[Any]:
    """The outputs of a stage: a path, or a mapping from it to its options."""
    return [entry for kind in ("outs", "metrics", "plots") for entry in definition.get(kind) or []]


def _uncached(definition: dict[str, Any]) -> list[str]:
    """Patterns of a stage's outputs that are not cached; ``${...}`` matches anything."""
    patterns = []
    for entry in _entries(definition):
        for path, options in entry.items() if isinstance(entry, dict) else ():
            if isinstance(options, dict) and options.get("cache") is False:
                fixed = re.split(r"\$\{[^}]*\}", path)
                patterns.append(".*".join(re.escape(piece) for piece in fixed))
    return patterns
