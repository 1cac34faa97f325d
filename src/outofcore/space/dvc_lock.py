"""What DVC's lock files state: which outputs a project has, of which size and digest."""

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
"""What reading a lock file raises that is cut off or damaged."""


@dataclass(frozen=True)
class Stated:
    """An output that DVC keeps in its cache, as a lock file states it.

    Attributes
    ----------
    stage
        The stage, or the ``.dvc`` file.
    path
        The output, as the file names it, relative to ``base``.
    base
        The stage's working folder.
    digest
        MD5 of a file, or of a folder's list of files with ``.dir`` behind it.
    bytes, files
        Size and number of files.
    """

    stage: str
    path: str
    base: Path
    digest: str
    bytes: int
    files: int


def lock_files(project: Path) -> Iterator[Path]:
    """``dvc.lock`` and ``*.dvc`` files, sorted; stores, hidden folders and projects inside are passed by."""
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
    """The outputs of a lock file that DVC keeps in its cache; those at a URL lie elsewhere.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError
        If it is not what DVC writes: see :data:`UNREADABLE`.
    ParamsError
        If the ``dvc.yaml`` beside it cannot be read.
    """
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
        if definition is None:  # left over from a stage that is gone; DVC passes it by as well
            continue
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


def stated_bytes(project: Path) -> int:
    """Bytes of all outputs in ``dvc.lock``, as a fresh workspace checks them out; 0 without a readable one."""
    try:
        return sum(stated.bytes for stated in stated_outputs(project / "dvc.lock"))
    except (OSError, ParamsError, *UNREADABLE):
        return 0


def _stated(stage: str, base: Path, out: dict[str, Any]) -> Stated:
    digest = out["md5"]
    files = int(out["nfiles"]) if digest.endswith(".dir") else 1
    return Stated(stage, out["path"], base, digest, int(out["size"]), files)


def _stages(file: Path) -> dict[str, dict[str, Any]]:
    """Stages of a ``dvc.yaml`` by name, with what stands under ``do`` of a ``foreach`` in its place."""
    if not file.exists():
        return {}
    try:
        stages = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("stages") or {}
        return {name: stage.get("do", stage) for name, stage in stages.items()}
    except UNREADABLE as error:
        message = f"{file}: expected stages as DVC reads them, {' '.join(str(error).split())}"
        raise ParamsError(message) from error


def _wdir(definition: dict[str, Any]) -> str:
    wdir = str(definition.get("wdir", "."))
    return "." if "${" in wdir else wdir


def _entries(definition: dict[str, Any]) -> list[Any]:
    """The outputs of a stage: a path, or a mapping from it to its options."""
    return [entry for kind in ("outs", "metrics", "plots") for entry in definition.get(kind) or []]


def _uncached(definition: dict[str, Any]) -> list[str]:
    """Patterns of the outputs that a stage keeps out of the cache; ``${...}`` stands for anything."""
    patterns = []
    for entry in _entries(definition):
        for path, options in entry.items() if isinstance(entry, dict) else ():
            if isinstance(options, dict) and options.get("cache") is False:
                fixed = re.split(r"\$\{[^}]*\}", path)
                patterns.append(".*".join(re.escape(piece) for piece in fixed))
    return patterns
