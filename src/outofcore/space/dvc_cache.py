"""Where DVC keeps its cache and how it is told to link, read from its configuration files."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from outofcore.errors import ParamsError

LINK_TYPES = ("reflink", "hardlink", "symlink", "copy")
# What DVC does where cache.type is not set.
DEFAULT_TYPES = ("reflink", "copy")


@dataclass(frozen=True)
class DvcCache:
    """DVC's cache as a project is configured.

    Attributes
    ----------
    project
        The folder that holds ``.dvc``.
    folder
        ``cache.dir``.
    types
        ``cache.type``, in order.
    origin
        The file that states ``cache.type``, or "DVC's default".
    """

    project: Path
    folder: Path
    types: tuple[str, ...]
    origin: str

    @property
    def objects(self) -> Path:
        """Where the objects lie, by their MD5."""
        return self.folder / "files" / "md5"

    def object(self, digest: str) -> Path:
        """Where an object lies; of a folder's list of files, the digest ends with ``.dir``."""
        return self.objects / digest[:2] / digest[2:]

    @property
    def experiments(self) -> Path:
        """Where DVC makes the workspaces of experiments that run apart (``--temp``, ``--queue``)."""
        return self.project / ".dvc" / "tmp" / "exps"


def find_cache(folder: str | Path = ".") -> DvcCache | None:
    """The cache of the DVC project that a folder lies in; None outside of any.

    Raises
    ------
    ParamsError
        If ``cache.type`` names a link that DVC does not know.
    """
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
        if place.is_mount():  # DVC looks no further either
            return None
    return None


def _config_files(project: Path) -> list[Path]:
    """DVC's configuration files, the strongest last: of the system, the user, the project, this clone."""
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
    """The ``[cache]`` section of a file in the notation that DVC writes, indented at will, values quoted or not."""
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
