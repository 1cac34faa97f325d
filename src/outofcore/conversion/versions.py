"""Versions of everything that determines a store's bytes: with equal versions, equal input gives equal bytes."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

from outofcore.compilation import source_digest
from outofcore.domains.registry import DOMAINS, get_domain

PACKAGES = ("numba", "numcodecs", "numpy", "zarr", "zstandard")


def versions(domain: str) -> dict[str, str]:
    """The package with a digest of its sources, its engines and oracles, and the package that adds the domain."""
    own = f"{metadata.version('outofcore')}+{source_digest()[:12]}"
    added = {each.dist.name: each.dist.version for each in DOMAINS.get(domain, ()) if each.dist}
    packages = (*PACKAGES, *(get_domain(domain).packages if domain in DOMAINS else ()))
    return {**added, "outofcore": own, **{name: metadata.version(name) for name in packages if find_spec(name)}}
