"""Packages that only some of outofcore needs: the extras of its installation."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from outofcore.errors import OutOfCoreError, ParamsError


def load(module: str, extra: str, need: str, kind: type[OutOfCoreError] = ParamsError, instead: str = "") -> Any:
    """Import a module of an extra; raises an error of this kind that says what needs it and what to do."""
    try:
        return import_module(module)
    except ImportError as error:  # it is not there, or broken
        raise kind(missing(need, module.partition(".")[0], f"outofcore[{extra}]") + instead) from error


def installed(package: str) -> bool:
    """Whether a package can be imported, by its name in ``import``."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # nor the package that it is in
        return False


def missing(need: str, package: str, cure: str) -> str:
    """The message for a package that is not installed, with what to install."""
    return f"{need} needs {package}: pip install '{cure}'"
