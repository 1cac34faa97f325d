"""The available domains: the folders here, and what other installed packages add as entry points."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module, metadata
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from pathlib import Path
from typing import Any

from outofcore.display.table import DisplayTable
from outofcore.domains.domain import Domain
from outofcore.errors import ParamsError, RawInputError
from outofcore.raw.files import Search, search
from outofcore.system.extras import installed

GROUP = "outofcore.domains"
ENGINES = ("numcodecs", "zarr", "zstandard")
"""What writes the stores of all domains: another version may give other bytes."""
_HERE = sorted(path.parent.name for path in Path(__file__).parent.glob("*/schema.py"))
_ADDED = tuple(entry_points(group=GROUP))
# An entry point is only read where its domain is asked for: a wrong one must not stop the others.
DOMAINS: dict[str, tuple[EntryPoint, ...]] = {
    name: (
        *(EntryPoint(own, f"outofcore.domains.{own}", GROUP) for own in _HERE if own == name),
        *(entry for entry in _ADDED if entry.name == name),
    )
    for name in dict.fromkeys((*_HERE, *(entry.name for entry in _ADDED)))
}
"""What provides each domain, by its name; more than one is refused when the domain is asked for."""


def get_domain(name: str) -> Domain:
    """A domain by name, imported on demand; raises ParamsError if unknown, or if a package does not provide it."""
    if name not in DOMAINS:
        raise ParamsError(f"no domain {name!r}; there are {', '.join(DOMAINS)}")
    first, *more = DOMAINS[name]
    if more:
        owners = " and in ".join(map(_owner, DOMAINS[name]))
        raise ParamsError(f"domain {name!r} is in {owners}; names are unique: uninstall all packages but one")
    if first.dist is None:
        own: Domain = import_module(first.value).DOMAIN
        return own
    try:
        domain: Domain = import_module(first.module).DOMAIN
        stated = domain.name
    except (ImportError, AttributeError, ValueError, AssertionError) as error:  # AssertionError: Python 3.13's module
        raise ParamsError(
            f"{_owner(first)}: expected domain {name!r} as DOMAIN in the module that its entry point names, got "
            f"{first.value!r} ({' '.join(str(error).split())}); reinstall or uninstall the package"
        ) from error
    if stated != name:
        raise ParamsError(
            f"{_owner(first)}: expected the entry point to have the name of its domain {stated!r}, got {name!r}; "
            "correct or uninstall the package"
        )
    return domain


def contents_of(path: Path) -> DisplayTable | None:
    """What a raw file holds, by the first domain that lists such files; None if no domain does."""
    for name in DOMAINS if path.is_file() else ():
        with suppress(ParamsError):  # a domain whose packages are not installed
            if (table := get_domain(name).contents(path)) is not None:
                return table
    return None


def search_raw(domain: Domain, section: Any) -> Search:
    """The raw files of a section; if there are none, the error names the domain that reads what is there."""
    try:
        return search(section.raw, section.match, domain.suffixes, section=domain.name)
    except RawInputError as error:
        if not Path(section.raw).is_dir():
            raise
        read = {name: _files_of(name, section) for name in DOMAINS}
        most = max(read, key=read.__getitem__)
        if not read[most]:
            raise
        raise RawInputError(f"{error}; {most} reads {read[most]:,} of the files there: did you mean {most}?") from error


def _files_of(name: str, section: Any) -> int:
    try:
        return len(search(section.raw, section.match, get_domain(name).suffixes, section=name).files)
    except (RawInputError, ParamsError):
        return 0


def packages(domain: str) -> dict[str, str]:
    """The installed packages that provide a domain, outofcore aside: their versions by name."""
    return {entry.dist.name: entry.dist.version for entry in DOMAINS.get(domain, ()) if entry.dist}


def engines(domain: str) -> dict[str, str]:
    """Versions of the installed packages that read, check and write the records of a domain."""
    names = (*ENGINES, *(get_domain(domain).packages if domain in DOMAINS else ()))
    return dict(chain.from_iterable(_versions(name) for name in names if installed(name)))


def _owner(entry: EntryPoint) -> str:
    return f"package {entry.dist.name} {entry.dist.version}" if entry.dist else "outofcore"


@cache
def _versions(name: str) -> list[tuple[str, str]]:
    """Version of the distribution that an import comes from."""
    try:
        return [(name, metadata.version(name))]
    except metadata.PackageNotFoundError:  # imported by another name than it is installed by
        owners = metadata.packages_distributions().get(name, ())
        return [(owner, metadata.version(owner)) for owner in sorted(set(owners))]
