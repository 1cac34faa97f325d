"""Entries of ``raw``, each of which has a store of its own; light, as the stage check runs before all others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outofcore.domains.domain import Domain
from outofcore.errors import ParamsError

STORES = Path("data/stores")


def entries_of(section: Any) -> dict[str, str]:
    """The paths in ``raw`` by name, in order of the names; empty if it is a single path."""
    return dict(sorted(section.raw.items())) if isinstance(section.raw, Mapping) else {}


def refuse_unlisted(domain: Domain, section: Any) -> None:
    """Raise ParamsError if there is a store, figures or rejects of an entry that ``raw`` no longer has."""
    entries = entries_of(section)
    places = (
        (STORES / domain.name, "*.zarr"),
        (Path("metrics") / domain.name / "convert", "*.json"),
        (Path("data/rejects") / domain.name, "*.csv"),
    )
    left = [path for folder, names in places for path in sorted(folder.glob(names)) if path.stem not in entries]
    if left:
        name, paths = left[0].stem, " ".join(str(path) for path in left if path.stem == left[0].stem)
        raise ParamsError(
            f"{domain.name}.raw in params.yaml has no entry {name!r}; add it there, or remove what is left of it: "
            f"'rm -r {paths}'"
        )
