"""Versions of everything that determines a store's bytes: with equal versions, equal input gives equal bytes."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

from outofcore.domains.registry import engines, packages

PACKAGE = Path(__file__).resolve().parents[1]


def versions(domain: str) -> dict[str, str]:
    """The package with a digest of its sources, its engines and oracles, and the package that adds the domain."""
    compiled = {name: metadata.version(name) for name in ("numba", "numpy")}
    own = {"outofcore": f"{metadata.version('outofcore')}+{_source_digest()[:12]}"}
    return {**packages(domain), **own, **compiled, **engines(domain)}


@cache
def _source_digest() -> str:
    """SHA-256 over all source files."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(
            f"{path.relative_to(PACKAGE).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
        )
    return digest.hexdigest()
