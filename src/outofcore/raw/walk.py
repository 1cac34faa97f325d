"""Entries of a folder that match a pattern; an entry that cannot be examined is an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path


def walk(root: Path, match: str, hidden: Callable[[str], bool]) -> Iterator[tuple[os.DirEntry[str], bool]]:
    """Matching entries other than folders, and links to folders that ``**`` would follow; and whether each is hidden.

    A hidden folder is an entry without its content, unless a step of the pattern begins as its name does.
    """
    steps = [step for step in match.split("/") if step not in ("", ".")]
    if steps[-1:] == ["**"]:
        steps.append("*")
    waiting = [(root, _reached(steps, {0}))]
    while waiting:
        folder, states = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                named = {at + 1 for at in states if steps[at] != "**" and fnmatchcase(entry.name, steps[at])}
                if hidden(entry.name) and not any(steps[at - 1][:1] == entry.name[:1] for at in named):
                    if (entry.is_dir() and (named or any(steps[at] == "**" for at in states))) or len(steps) in named:
                        yield entry, True
                    continue
                within = _reached(steps, named)
                deeper = {at for at in states if steps[at] == "**"}
                if entry.is_dir():
                    linked = entry.is_symlink()
                    if linked and deeper and not within:
                        yield entry, False
                    elif inside := within if linked else within | deeper:
                        waiting.append((Path(entry.path), _reached(steps, inside)))
                elif len(steps) in named:
                    yield entry, False


def _reached(steps: list[str], states: set[int]) -> set[int]:
    """Steps of a pattern that may come next; ``**`` may match no folder."""
    reached = set(states)
    for at, step in enumerate(steps):
        if step == "**" and at in reached:
            reached.add(at + 1)
    return reached - {len(steps)}
