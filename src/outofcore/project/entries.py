"""Entries of ``raw``, each of which has a store of its own; light, as the stage check runs before all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outofcore.domains.domain import Domain
from outofcore.domains.registry import search_raw
from outofcore.errors import ParamsError, RawInputError
from outofcore.raw.files import ARCHIVES, RawFile, Search, plain_name

STORES = Path("data/stores")


def entries_of(section: Any) -> dict[str, str]:
    """The paths in ``raw`` by name, in order of the names; empty if it is a single path."""
    return dict(sorted(section.raw.items())) if isinstance(section.raw, Mapping) else {}


def searches_of(domain: Domain, section: Any) -> dict[str, Search]:
    """The raw files of each entry, in order of the names; of "" if there are no entries."""
    paths = entries_of(section) or {"": section.raw}
    searches = {entry: search_raw(domain, section.model_copy(update={"raw": raw})) for entry, raw in paths.items()}
    if not section.grow:
        return searches
    grown = by_entry(searches[""].files, domain.suffixes)
    return {entry: Search(files, {} if at else searches[""].unread) for at, (entry, files) in enumerate(grown.items())}


def by_entry(files: Sequence[RawFile], suffixes: tuple[str, ...]) -> dict[str, list[RawFile]]:
    """Raw files by the file or folder directly in ``raw`` that they are in, without its ending, in order of the names.

    Raises RawInputError if two have one name.
    """
    grown: dict[str, list[RawFile]] = {}
    named: dict[str, str] = {}
    for file in files:
        first = file.name.partition("/")[0]
        bare = plain_name(first)
        ending = next((end for end in (*ARCHIVES, *suffixes) if end[:1] == "." and bare.lower().endswith(end)), "")
        entry = bare[: len(bare) - len(ending)] or first
        if named.setdefault(entry, first) != first:
            raise RawInputError(f"{named[entry]} and {first} would both be the entry {entry!r}: rename one of them")
        grown.setdefault(entry, []).append(file)
    return dict(sorted(grown.items()))


def refuse_unlisted(domain: Domain, section: Any) -> None:
    """Raise ParamsError if there is a store, figures or rejects of an entry that ``raw`` no longer has."""
    entries = entries_of(section)
    places = (
        *([] if section.grow else [(STORES / domain.name, "*.zarr")]),
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
