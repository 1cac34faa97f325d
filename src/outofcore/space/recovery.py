"""How to recover a damaged output.

With links, workspace and cache share the file: damage to one is damage to both. DVC trusts a write-protected object, so
'dvc checkout' restores the damage; the object has to be removed first.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from outofcore.errors import ParamsError
from outofcore.space.dvc_cache import DvcCache, find_cache
from outofcore.space.dvc_lock import UNREADABLE, Stated, stated_outputs


@dataclass(frozen=True)
class Recovery:
    """What to do about a damaged output."""

    damaged: tuple[Path, ...]  # cache objects whose content does not match their name
    advice: str  # one line: the commands to recover it


def recovery(output: str | Path) -> Recovery:
    """Check whether DVC's cache has an intact copy of an output, reading all of it, and how to recover it."""
    output = Path(output)
    cache = find_cache(output.parent)
    stated = _statement(output, cache) if cache else None
    if cache is None or stated is None:
        return Recovery((), f"DVC knows of no {output}; convert again")
    name = shlex.quote(str(output))
    damaged, lacking = _objects(cache, stated)
    fetch = f"'dvc pull {name}' where a remote has it, else 'dvc repro'"
    if damaged:
        listed = " ".join(shlex.quote(os.path.relpath(path)) for path in damaged)
        what = "object of the DVC cache is" if len(damaged) == 1 else "objects of the DVC cache are"
        advice = f"{len(damaged)} {what} damaged as well: 'rm -rf {name} {listed}', then {fetch}"
    elif lacking:
        advice = f"the DVC cache lacks {lacking} of its objects: {fetch}"
    else:
        advice = f"the DVC cache has it whole: 'dvc checkout -f {name}'"
    return Recovery(damaged, advice)


def _statement(output: Path, cache: DvcCache) -> Stated | None:
    """The output's entry in ``dvc.lock``."""
    place = Path(os.path.normpath(output.absolute()))
    try:
        stated = stated_outputs(cache.project / "dvc.lock")
    except (OSError, ParamsError, *UNREADABLE):
        return None
    return next((each for each in stated if Path(os.path.normpath(each.base / each.path)) == place), None)


def _objects(cache: DvcCache, stated: Stated) -> tuple[tuple[Path, ...], int]:
    """The output's damaged objects, and the number of missing ones."""
    listing = cache.object(stated.digest)
    digests = [stated.digest]
    if stated.digest.endswith(".dir") and _whole(listing, stated.digest):
        digests += [entry["md5"] for entry in json.loads(listing.read_bytes())]
    found = {cache.object(digest): digest for digest in digests}
    lacking = sum(not path.is_file() for path in found)
    damaged = [path for path, digest in found.items() if path.is_file() and not _whole(path, digest)]
    return tuple(damaged), lacking


def _whole(path: Path, digest: str) -> bool:
    try:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError:
        return False
    return found == digest.removesuffix(".dir")
