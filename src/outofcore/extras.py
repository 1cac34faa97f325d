"""Packages that only some of outofcore needs: the extras of its installation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from outofcore.errors import OutOfCoreError, ParamsError


def load(module: str, extra: str, need: str, kind: type[OutOfCoreError] = ParamsError) -> Any:
    """Import a module of an extra; raises an error of this kind that says what needs it and how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise kind(missing(need, module.partition(".")[0], f"outofcore[{extra}]")) from error


def missing(need: str, package: str, cure: str) -> str:
    """The message for a package that is not installed, with what to install."""
    return f"{need} needs {package}: pip install '{cure}'"
