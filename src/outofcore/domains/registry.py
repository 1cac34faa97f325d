"""The domains that there are: a further one is a folder beside these and a line here."""

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
    """A domain by name, imported when it is asked for.

    Raises
    ------
    ParamsError
        If there is none of that name.
    """
    if name not in DOMAINS:
        message = f"no domain {name!r}; there are {', '.join(DOMAINS)}"
        raise ParamsError(message)
    domain: Domain = import_module(DOMAINS[name]).DOMAIN
    return domain
