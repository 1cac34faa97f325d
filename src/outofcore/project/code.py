"""The versions that decide the bytes of a domain's store and its model, and a digest of the code that trains."""

from __future__ import annotations

import hashlib
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from outofcore.domains.domain import Domain
from outofcore.domains.own_network import own_name, source_digest
from outofcore.domains.registry import engines, packages
from outofcore.errors import ParamsError

PACKAGE = Path(__file__).resolve().parents[1]
REQUIREMENTS = ("requirements.txt", "requirements.lock")  # of a project, of a clone
# Next to the domain's own package, what decides a model or the order of its samples.
TRAINS = ("training/*.py", "loading/*.py", "order/*.py", "domains/*.py", "domains/boards/*.py")


def code_of(domain: Domain) -> dict[str, str]:
    """What a conversion and a training depend on apart from their settings and input.

    ``convert``: the version of the domain's bytes, and the versions of outofcore, of the package that adds the domain
    and of the engines. ``train``: the version of its training, and those of the first two.
    """
    own = {"outofcore": version("outofcore"), **packages(domain.name)}
    versions = {
        "convert": {f"bytes of {domain.name}": domain.versions.bytes, **own, **engines(domain.name)},
        "train": {f"training of {domain.name}": domain.versions.training, **own},
    }
    return {stage: "".join(f"{name} {value}\n" for name, value in of.items()) for stage, of in versions.items()}


def training_code(domain: Domain, section: Any) -> dict[str, str]:
    """Versions of outofcore, of the package that adds the domain, of torch and NumPy, and digests of what trains.

    A network of the user's own has a digest of its source.
    """
    network = own_name(section)
    own = {"outofcore": version("outofcore"), **packages(domain.name)}
    own |= {"network": source_digest(network)} if network else {}
    return {**own, "torch": version("torch"), "numpy": version("numpy"), "code": _digest_that_trains(domain)}


def _digest_that_trains(domain: Domain) -> str:
    """SHA-256 of the files that train."""
    own = Path(str(sys.modules[type(domain).__module__].__file__))
    files = [
        *(sorted(own.parent.rglob("*.py")) if own.name == "__init__.py" else [own]),
        *(path for pattern in TRAINS for path in sorted(PACKAGE.glob(pattern))),
    ]
    return hashlib.sha256(b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in files)).hexdigest()


def stated_versions(domain: Domain) -> dict[str, str]:
    """The versions that decide a domain's bytes, by package, as requirements state them."""
    return {"outofcore": version("outofcore"), **packages(domain.name), **engines(domain.name)}


def check_version(domain: Domain, folder: Path = Path()) -> None:
    """Raise ParamsError if requirements in a folder state other versions than those that run."""
    for file in (folder / name for name in REQUIREMENTS):
        text = file.read_text("utf-8") if file.is_file() else ""
        for package, installed in stated_versions(domain).items():
            name = "[-_.]+".join(re.split("[-_.]+", package))
            stated = re.search(
                rf"^{name}\s*(?:\[[^\]]*\])?\s*(?:@ \S+ # )?==\s*([^\s;#]+)", text, re.MULTILINE | re.IGNORECASE
            )
            if stated and stated[1] != installed:
                raise ParamsError(
                    f"{file}: expected {package} {installed}, the installed version, got {stated[1]}; install that "
                    "one, or take over the installed one: 'outofcore init .'"
                )
