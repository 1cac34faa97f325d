"""The available domains; to add one, add a folder here and a line below."""

from __future__ import annotations

from importlib import import_module

from outofcore.domains.domain import Domain
from outofcore.errors import ParamsError

DOMAINS = {
    "chess": "outofcore.domains.chess",
    "go": "outofcore.domains.go",
    "text": "outofcore.domains.text",
    "neural": "outofcore.domains.neural",
}


def get_domain(name: str) -> Domain:
    """A domain by name, imported on demand; raises ParamsError if unknown."""
    if name not in DOMAINS:
        message = f"no domain {name!r}; there are {', '.join(DOMAINS)}"
        raise ParamsError(message)
    domain: Domain = import_module(DOMAINS[name]).DOMAIN
    return domain
