"""DVC's cache: where it is, its types of links, and whether it holds what lock files state.

Its settings are read from the configuration files as DVC reads them, also without DVC. Two keys of the section
``cache`` count, ``dir`` and ``type``. They are in four files, later ones over earlier ones: of the system, of the user,
of the project, of the clone. DVC exits with code 0 even if the cache's disk was full, so lock files are compared with
the cache.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from outofcore.errors import OutOfCoreError, ParamsError
from outofcore.settings.yaml_text import parse_yaml
from outofcore.system.extras import installed
from outofcore.system.extras import missing as lacking
from outofcore.system.project import project_of

REMOVE_OLD = (
    "'dvc gc --workspace --all-commits --all-experiments --dry' (lists it; without --dry it is removed, also what "
    "other projects keep in the same cache unless --projects names them)"
)
CURE = (
    "make room, then 'dvc commit' puts into the cache what is in the workspace; "
    "'dvc pull' fetches what a remote has; else 'dvc repro' makes it again"
)
RENEW = "'git checkout dvc.lock' brings the last committed one back; then make room and run 'dvc repro'"
LINK_TYPES = ("reflink", "hardlink", "symlink", "copy")
# DVC's default for cache.type.
DEFAULT_TYPES = ("reflink", "copy")
_SECTION = re.compile(r"\[(.*)\]\s*(#.*)?")
_KEY = re.compile(r"""(dir|type)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^"'#]*?))\s*(?:\#.*)?""", re.IGNORECASE)


@dataclass(frozen=True)
class DvcCache:
    """DVC's cache as a project is configured."""

    project: Path  # the folder that holds ``.dvc``
    folder: Path  # ``cache.dir``
    types: tuple[str, ...]  # ``cache.type``, in order
    origin: str  # the file that sets ``cache.type``, or "DVC's default"

    @property
    def objects(self) -> Path:
        """Folder of the objects, which are named by their MD5."""
        return self.folder / "files" / "md5"

    @property
    def experiments(self) -> Path:
        """Folder of the workspaces of separate experiments (``--temp``, ``--queue``)."""
        return self.project / ".dvc" / "tmp" / "exps"


def find_cache(folder: str | Path = ".") -> DvcCache | None:
    """The cache of the DVC project containing a folder, or None; raises ParamsError for settings that DVC refuses."""
    project = project_of(Path(folder))
    if project is None:
        return None
    place, types, origin = project / ".dvc" / "cache", ",".join(DEFAULT_TYPES), "DVC's default"
    for file in _files(project):
        settings = _read(file)
        if "dir" in settings:
            place = file.parent / Path(settings["dir"]).expanduser()
        if "type" in settings:
            types, origin = settings["type"], str(file)
    links = tuple(link.strip() for link in types.split(","))
    if unknown := [link for link in links if link not in LINK_TYPES]:
        raise ParamsError(f"{origin}: cache.type: expected links among {', '.join(LINK_TYPES)}, got {unknown[0]!r}")
    return DvcCache(project, Path(os.path.normpath(place)), links, origin)


def _files(project: Path) -> Iterator[Path]:
    """The files of settings of a project, from the most general to the most special."""
    stated = [os.environ.get(f"DVC_{level}_CONFIG_DIR") for level in ("SYSTEM", "GLOBAL")]
    if installed("platformdirs"):  # as it is where DVC is
        import platformdirs

        stated[0] = stated[0] or platformdirs.site_config_dir("dvc", "iterative")
        stated[1] = stated[1] or platformdirs.user_config_dir("dvc", "iterative")
    yield from (Path(place) / "config" for place in stated if place)
    yield from (project / ".dvc" / name for name in ("config", "config.local"))


def _read(file: Path) -> dict[str, str]:
    """What a file states of the cache."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise ParamsError(f"{file}: expected settings of DVC, got {error}") from error
    settings, inside = {}, False
    for line in map(str.strip, lines):
        if section := _SECTION.fullmatch(line):
            inside = section[1].strip().lower() == "cache"
        elif line.startswith("[") or (inside and re.match(r"(dir|type)\s*=", line, re.IGNORECASE)):
            key = _KEY.fullmatch(line)
            if key is None:
                raise ParamsError(f"{file}: expected settings of DVC such as 'type = hardlink,symlink', got {line!r}")
            settings[key[1].lower()] = next(value for value in key.groups()[1:] if value is not None)
    return settings


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
