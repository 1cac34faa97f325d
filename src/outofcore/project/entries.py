"""Entries of a ``raw`` that grows: the files and folders in it, each of which has a store of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outofcore.domains.domain import Domain
from outofcore.domains.registry import search_raw
from outofcore.errors import RawInputError
from outofcore.raw.files import ARCHIVES, RawFile, Search, plain_name

STORES = Path("data/stores")


def project_store(domain: Domain) -> Path:
    """A domain's store in a project; the folder of its stores if ``raw`` grows, the catalogue of a stream."""
    return STORES / f"{domain.name}.zarr"


def searches_of(domain: Domain, section: Any) -> dict[str, Search]:
    """The raw files of each entry, in order of the names; of "" if there are no entries."""
    searched = search_raw(domain, section)
    if not section.grow:
        return {"": searched}
    grown = by_entry(searched.files, domain.suffixes)
    return {entry: Search(files, {} if at else searched.unread) for at, (entry, files) in enumerate(grown.items())}


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
