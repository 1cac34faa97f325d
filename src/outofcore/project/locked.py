"""What ``dvc.lock`` records of earlier runs: of the tokenizer that is here, of what DVC has removed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from outofcore.errors import ParamsError, SpaceError
from outofcore.settings.yaml_text import parse_json, parse_yaml
from outofcore.space.dvc_cache import find_cache
from outofcore.space.links import Commit, commit_of, make_link

STAGE = "tokenizer"
RUNNING = "DVC_STAGE"  # the variable by which DVC names a stage to its command


def put_back(lock: Path = Path("dvc.lock")) -> str:
    """Link what DVC has removed before it ran this stage from its cache, as it was; for the end of an error, in words.

    ``persist: true`` would keep it, but DVC copies such outputs out of its cache before each run, and never takes them
    from its run cache.
    """
    cache = find_cache()
    gone = [out for out in _outs(lock) if not os.path.lexists(out["path"])]
    if cache is None or not gone:
        return ""  # not run by DVC, or nothing is gone
    largest = max(gone, key=lambda out: int(out.get("size", 0)))["path"]
    try:
        commit = commit_of(largest, cache)
        linked = [commit.on_checkout != "copy" and restore(Path(out["path"]), commit, lock) for out in gone]
    except (OSError, SpaceError):
        linked = [False]
    if all(linked):
        return f"; {largest} is again what it was"
    return f"; DVC removed {largest} beforehand, and 'dvc checkout' restores it"


def restore(path: Path, commit: Commit, lock: Path = Path("dvc.lock"), first: str = "") -> bool:
    """Link an output of this stage from DVC's cache, unless it is there; returns whether this was done.

    All its files must be in the cache. With ``first``, the name of one, this one must, and others are left out.
    """
    objects = commit.cache.objects.absolute()
    try:
        (digest,) = (str(out["md5"]) for out in _outs(lock) if out["path"] == path.as_posix())
        digests = {"": digest}
        if digest.endswith(".dir"):
            listed = parse_json((objects / digest[:2] / digest[2:]).read_bytes())
            digests = {file["relpath"]: file["md5"] for file in listed}
        names = [first, *(digests.keys() - {first})] if first else list(digests)
        files = {name: objects / digests[name][:2] / digests[name][2:] for name in names}
    except (OSError, ValueError, TypeError, KeyError):
        return False  # not run by DVC, or never before
    cached = {name: file for name, file in files.items() if file.is_file()}
    if os.path.lexists(path) or (first not in cached if first else len(cached) < len(files)):
        return False
    for name, file in cached.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        make_link(commit.on_checkout, file, path / name)
    return True


def _outs(lock: Path) -> list[dict[str, Any]]:
    """What a lock file states of the outputs of the stage that this process is; none if DVC does not run it."""
    try:
        stage = parse_yaml(lock.read_text("utf-8"))["stages"][os.environ[RUNNING].rpartition(":")[2]]
        return [out for out in stage["outs"] if isinstance(out["path"], str)]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def refuse_earlier_tokenizer(section: Any, lock: Path) -> None:
    """Raise ParamsError if the tokenizer of a text was made by DVC from another text or other settings."""
    path = Path(section.tokenizer.path)
    try:
        stage = parse_yaml(lock.read_text("utf-8"))["stages"][STAGE]
        digests = {out["path"]: out["md5"] for out in stage["outs"]}
        content = path.read_bytes()
        texts = {dep["path"] for dep in stage["deps"]}
        stated = {name.removeprefix("text."): value for name, value in stage["params"]["params.yaml"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return  # no project, none made yet, or none that can be read
    if digests.get(str(path)) != hashlib.md5(content, usedforsecurity=False).hexdigest():
        return  # made by hand since
    settings = section.model_dump(mode="json")
    changed = [f"text.{name}" for name, value in stated.items() if _differ(value, settings.get(name))]
    if isinstance(section.raw, str) and section.raw not in texts:
        changed.insert(0, "text.raw")
    if changed:
        raise ParamsError(
            f"text.tokenizer.path: {path} was made for another {' and another '.join(changed)}, by {lock}, so that "
            "token counts would be wrong; run 'dvc repro tokenizer' first"
        )


def _differ(stated: Any, now: Any) -> bool:
    """Whether settings of a lock file are not those of now, as far as both have them: stores do not record a path."""
    if isinstance(stated, dict) and isinstance(now, dict):
        return any(_differ(value, now[key]) for key, value in stated.items() if key in now)
    return bool(stated != now)
