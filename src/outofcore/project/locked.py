"""What ``dvc.lock`` records of earlier runs: of the tokenizer that is here, of what DVC has removed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from outofcore.errors import ParamsError
from outofcore.settings.yaml_text import parse_json, parse_yaml
from outofcore.space.links import Commit, make_link

STAGE = "tokenizer"
RUNNING = "DVC_STAGE"  # the variable by which DVC names a stage to its command


def removed_outputs(lock: Path = Path("dvc.lock")) -> str:
    """How to restore what DVC has removed before it ran this stage, for the end of an error; "" if it is nothing.

    ``persist: true`` would keep it, but DVC copies such outputs out of its cache before each run, and never takes them
    from its run cache.
    """
    try:
        stage = parse_yaml(lock.read_text("utf-8"))["stages"][os.environ[RUNNING].rpartition(":")[2]]
        gone = [out for out in stage["outs"] if not Path(out["path"]).exists()]
        largest = max(gone, key=lambda out: out["size"])["path"]
    except (OSError, ValueError, TypeError, KeyError):
        return ""  # not run by DVC, or nothing is gone
    return f"; DVC removed {largest} beforehand, and 'dvc checkout' restores it"


def restore(folder: Path, first: str, commit: Commit, lock: Path = Path("dvc.lock")) -> None:
    """Link a folder from DVC's cache as it was before this stage, for which DVC has removed it; nothing if it is there.

    Without the file ``first`` in the cache, nothing is restored; other files that are not in it are left out.
    """
    objects = commit.cache.objects.absolute()
    try:
        stage = parse_yaml(lock.read_text("utf-8"))["stages"][os.environ[RUNNING].rpartition(":")[2]]
        (listed,) = (out["md5"] for out in stage["outs"] if out["path"] == folder.as_posix())
        files = parse_json((objects / listed[:2] / listed[2:]).read_bytes())
        digests = {file["relpath"]: file["md5"] for file in files}
        names = [first, *(digests.keys() - {first})]
        places = {name: objects / digests[name][:2] / digests[name][2:] for name in names}
    except (OSError, ValueError, TypeError, KeyError):
        return  # not run by DVC, or never before
    if os.path.lexists(folder) or not places[first].is_file():
        return
    for name, place in places.items():
        if place.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            make_link(commit.on_checkout, place, folder / name)


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
