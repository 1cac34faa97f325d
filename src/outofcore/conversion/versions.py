"""Versions of everything that determines a store's bytes: with equal versions, equal input gives equal bytes."""

from __future__ import annotations

from importlib import metadata

from outofcore.compilation import source_digest
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.extras import installed

PACKAGES = ("numba", "numcodecs", "numpy", "zarr", "zstandard")


def versions(domain: str) -> dict[str, str]:
    """The package with a digest of its sources, its engines and oracles, and the package that adds the domain."""
    own = f"{metadata.version('outofcore')}+{source_digest()[:12]}"
    added = {each.dist.name: each.dist.version for each in DOMAINS.get(domain, ()) if each.dist}
    packages = (*PACKAGES, *(get_domain(domain).packages if domain in DOMAINS else ()))
    return {**added, "outofcore": own, **{name: _version(name) for name in packages if installed(name)}}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # imported by another name than it is installed by
        names = metadata.packages_distributions().get(package, ())
        return ",".join(f"{name} {metadata.version(name)}" for name in sorted(set(names)))
