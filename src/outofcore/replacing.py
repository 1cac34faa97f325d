"""Replace files atomically: DVC links what it caches, so writing into a linked file would change the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Write a text file; the previous file is unchanged under any other names it has."""
    replace_file(path, lambda new: new.write_text(text, encoding="utf-8", newline="\n"))


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name, passed to ``write``, then rename it; creates missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.part")
    try:
        write(new)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
