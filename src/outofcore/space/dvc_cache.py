"""Location and link types of DVC's cache, read from its configuration files."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from outofcore.errors import ParamsError

# 'dvc gc -w' would also remove what experiments need.
REMOVE_OLD = (
    "'dvc gc --all-experiments' (it also removes what no experiment but another branch or commit needs; "
    "add --all-commits to keep that)"
)
LINK_TYPES = ("reflink", "hardlink", "symlink", "copy")
# DVC's default for cache.type.
DEFAULT_TYPES = ("reflink", "copy")


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

    def object(self, digest: str) -> Path:
        """Path of an object; the digest of a folder's list of files ends with ``.dir``."""
        return self.objects / digest[:2] / digest[2:]

    @property
    def experiments(self) -> Path:
        """Folder of the workspaces of separate experiments (``--temp``, ``--queue``)."""
        return self.project / ".dvc" / "tmp" / "exps"


def find_cache(folder: str | Path = ".") -> DvcCache | None:
    """The cache of the DVC project containing a folder, or None; raises ParamsError for unknown link types."""
    project = _project(Path(folder))
    if project is None:
        return None
    settings: dict[str, str] = {}
    origin, base = "DVC's default", project
    for path in _config_files(project):
        found = _cache_section(path)
        settings |= found
        origin = str(path) if "type" in found else origin
        base = path.parent if "dir" in found else base
    types = tuple(each.strip() for each in settings.get("type", "").split(",") if each.strip()) or DEFAULT_TYPES
    if unknown := [each for each in types if each not in LINK_TYPES]:
        message = f"{origin}: cache.type: expected links among {', '.join(LINK_TYPES)}, got {unknown[0]!r}"
        raise ParamsError(message)
    stated = Path(settings["dir"]).expanduser() if "dir" in settings else project / ".dvc" / "cache"
    return DvcCache(project, Path(os.path.normpath(base / stated)), types, origin)


def _project(folder: Path) -> Path | None:
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if (place / ".dvc").is_dir():
            return place
        if place.is_mount():  # as DVC does
            return None
    return None


def _config_files(project: Path) -> list[Path]:
    """DVC's configuration files, highest precedence last: system, user, project, clone."""
    if sys.platform == "darwin":
        system, user = Path("/Library/Application Support/dvc"), Path("~/Library/Application Support/dvc")
    else:
        system = Path(os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep)[0]) / "dvc"
        user = Path(os.environ.get("XDG_CONFIG_HOME", "") or "~/.config") / "dvc"
    system = Path(os.environ.get("DVC_SYSTEM_CONFIG_DIR", "") or system)
    user = Path(os.environ.get("DVC_GLOBAL_CONFIG_DIR", "") or user).expanduser()
    return [
        system / "config",
        user / "config",
        project / ".dvc" / "config",
        project / ".dvc" / "config.local",
    ]


def _cache_section(path: Path) -> dict[str, str]:
    """The ``[cache]`` section of a file in DVC's notation: optional indentation, optional quotes."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    section, found = "", {}
    for line in lines:
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if text.startswith("["):
            section = text.strip("[] '\"").lower()
        elif section == "cache" and "=" in text:
            key, _, value = text.partition("=")
            found[key.strip().lower()] = value.strip().strip("'\"")
    return found
