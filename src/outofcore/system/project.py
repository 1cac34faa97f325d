"""Whether a folder is in a DVC project, which decides what a message advises."""

from __future__ import annotations

import os
from pathlib import Path


def project_of(folder: Path) -> Path | None:
    """The folder with the ``.dvc`` that DVC finds from here, or None."""
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if (place / ".dvc").is_dir():
            return place
        if os.path.ismount(place):  # as DVC does; Path.is_mount of Python 3.11 does not exist on Windows
            return None
    return None
