"""Location and link types of DVC's cache, read from the configuration files as DVC reads them, also without DVC.

Two keys of the section ``cache`` count, ``dir`` and ``type``. They are in four files, later ones over earlier ones: of
the system, of the user, of the project, of the clone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from outofcore.errors import ParamsError
from outofcore.system.extras import installed
from outofcore.system.project import project_of

REMOVE_OLD = (
    "'dvc gc --workspace --all-commits --all-experiments --dry' (lists it; without --dry it is removed, also what "
    "other projects keep in the same cache unless --projects names them)"
)
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
