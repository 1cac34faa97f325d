"""Whether DVC's cache holds what its lock files state: DVC exits with code 0 even if the cache's disk was full."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from outofcore.errors import OutOfCoreError, ParamsError
from outofcore.settings.yaml_text import parse_yaml
from outofcore.space.dvc_cache import find_cache
from outofcore.system.extras import installed
from outofcore.system.extras import missing as lacking

CURE = (
    "make room, then 'dvc commit' puts into the cache what is in the workspace; "
    "'dvc pull' fetches what a remote has; else 'dvc repro' makes it again"
)
RENEW = "'git checkout dvc.lock' brings the last committed one back; then make room and run 'dvc repro'"


@dataclass(frozen=True)
class Committed:
    """What the cache lacks of the outputs in ``dvc.lock`` and ``.dvc`` files, by path."""

    lacking: tuple[str, ...]  # in the workspace, but not in the cache
    absent: tuple[str, ...]  # in neither: never run or pulled here


def committed(folder: str | Path = ".", targets: Sequence[str] = ()) -> Committed:
    """Compare the lock files of a project, or some stages and outputs in them, with the cache."""
    cache = find_cache(folder)
    if cache is None:
        raise ParamsError(f"{Path(folder).resolve()}: expected a DVC project, found no .dvc folder here or above")
    lock = cache.project / "dvc.lock"
    content = lock.read_bytes() if lock.is_file() else b"\n"
    if b"\n<<<<<<< " in content:
        raise OutOfCoreError(f"{lock} holds the conflict of a merge: 'git checkout --ours dvc.lock', then 'dvc repro'")
    if not content.endswith(b"\n"):  # DVC passes over what is lost
        raise OutOfCoreError(f"{lock} is cut short, as after a disk that ran full: {RENEW}")
    if not installed("dvc"):
        raise ParamsError(lacking(f"{cache.project}: a DVC project", "dvc", "outofcore[project]"))
    command = [sys.executable, "-m", "dvc", "data", "status", "--json", "--granular"]
    ended = subprocess.run(command, cwd=cache.project, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")] or ["ERROR: no answer"]
        raise OutOfCoreError(
            f"'dvc data status' failed: {lines[0].removeprefix('ERROR: ')}; if dvc.lock is not whole, "
            f"as after a disk that ran full: {RENEW}"
        )
    status = json.loads(ended.stdout)
    deleted = set(status.get("uncommitted", {}).get("deleted", ()))
    wanted = tuple(chain.from_iterable(_paths(lock, target) for target in targets)) or ("",)
    missing = sorted(path for path in status.get("not_in_cache", ()) if path.startswith(wanted))
    return Committed(
        tuple(path for path in missing if path not in deleted), tuple(path for path in missing if path in deleted)
    )


def _paths(lock: Path, target: str) -> list[str]:
    """The outputs of a stage in a lock file, or the one output or ``.dvc`` file's path that is named."""
    stages = parse_yaml(lock.read_text("utf-8"))["stages"] if lock.is_file() else {}
    outputs = {name: [out["path"] for out in stage.get("outs", ())] for name, stage in stages.items()}
    if target in outputs:
        return outputs[target]
    path = target.removesuffix(".dvc").rstrip("/")
    if path == target.rstrip("/") and path not in chain.from_iterable(outputs.values()):
        raise ParamsError(
            f"{lock}: expected a stage or an output, got {target!r}; it has {', '.join(outputs) or 'none yet'}"
        )
    return [path]
