"""Versions of everything that determines a store's bytes: with equal versions, equal input gives equal bytes."""

from __future__ import annotations

from importlib import metadata

from outofcore.domains.registry import engines, packages
from outofcore.system.compilation import source_digest


def versions(domain: str) -> dict[str, str]:
    """The package with a digest of its sources, its engines and oracles, and the package that adds the domain."""
    compiled = {name: metadata.version(name) for name in ("numba", "numpy")}
    own = {"outofcore": f"{metadata.version('outofcore')}+{source_digest()[:12]}"}
    return {**packages(domain), **own, **compiled, **engines(domain)}
