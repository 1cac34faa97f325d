"""The available domains: the folders here, and what other installed packages add as entry points."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from outofcore.domains.domain import Domain
from outofcore.errors import ParamsError

GROUP = "outofcore.domains"
_FOLDERS = sorted(path.parent.name for path in Path(__file__).parent.glob("*/schema.py"))
DOMAINS = {each.name: each.module for each in entry_points(group=GROUP)} | {
    name: f"outofcore.domains.{name}" for name in _FOLDERS
}
"""Package by name."""


def get_domain(name: str) -> Domain:
    """A domain by name, imported on demand; raises ParamsError if unknown."""
    if name not in DOMAINS:
        message = f"no domain {name!r}; there are {', '.join(DOMAINS)}"
        raise ParamsError(message)
    domain: Domain = import_module(DOMAINS[name]).DOMAIN
    return domain
