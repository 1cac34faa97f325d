"""Location and link types of DVC's cache, as DVC reads its configuration."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outofcore.errors import ParamsError
from outofcore.system.extras import load
from outofcore.system.project import project_of

REMOVE_OLD = (
    "'dvc gc --workspace --all-commits --all-experiments --dry' (lists it; without --dry it is removed, also what "
    "other projects keep in the same cache unless --projects names them)"
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

    @property
    def experiments(self) -> Path:
        """Folder of the workspaces of separate experiments (``--temp``, ``--queue``)."""
        return self.project / ".dvc" / "tmp" / "exps"


def find_cache(folder: str | Path = ".") -> DvcCache | None:
    """The cache of the DVC project containing a folder, or None; raises ParamsError if DVC is missing or refuses it."""
    project = project_of(Path(folder))
    if project is None:
        return None
    dvc = load("dvc.config", "project", f"{project}: a DVC project")  # takes a tenth of a second
    from voluptuous import Invalid

    class Levels(dvc.Config):  # type: ignore[misc,name-defined]  # known at run time only
        def load(self, **_: Any) -> None:
            """Each level is read alone, so that its file can be named."""

    settings: dict[str, Any] = {}
    origin = "DVC's default"
    config = Levels(str(project / ".dvc"))
    for level in config.LEVELS:
        try:
            stated = config.load_one(level)["cache"]
        except (dvc.ConfigError, Invalid, SyntaxError, TypeError) as error:  # SyntaxError: of configobj
            message = f"{config.files[level]}: expected settings of DVC, got {' '.join(str(error).split())}"
            raise ParamsError(message) from error
        settings |= stated
        origin = config.files[level] if "type" in stated else origin
    stated = settings.get("type") or list(DEFAULT_TYPES)
    types = tuple(each.strip() for each in (stated.split(",") if isinstance(stated, str) else stated))
    if unknown := [each for each in types if each not in LINK_TYPES]:
        message = f"{origin}: cache.type: expected links among {', '.join(LINK_TYPES)}, got {unknown[0]!r}"
        raise ParamsError(message)
    place = Path(os.path.normpath(settings.get("dir", project / ".dvc" / "cache")))
    return DvcCache(project, place, types, origin)
