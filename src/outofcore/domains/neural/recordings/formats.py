"""The formats that are read: every module of this folder that has a subclass of ``Recording`` with a word for it."""

from __future__ import annotations

from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path
from pkgutil import iter_modules

from outofcore.domains.neural.recordings.recording import Recording


def _formats() -> dict[str, type[Recording]]:
    names = (each.name for each in iter_modules([str(Path(__file__).parent)]))
    modules = (import_module(f"{__package__}.{name}") for name in names if name != "formats")
    classes = (found for module in modules for _, found in getmembers(module, isclass) if issubclass(found, Recording))
    return {found.format: found for found in classes if found.format}


FORMATS = _formats()
"""Classes by format, in order of their modules' names."""

SUFFIXES = {suffix: found.format for found in FORMATS.values() for suffix in found.suffixes}
"""The format of files that are a session each, by their ending."""

FOLDERS = {found.folder_suffix: found.format for found in FORMATS.values() if found.folder_suffix}
"""The format of folders that are a session each, by their ending."""

NAMES = tuple(
    dict.fromkeys((*SUFFIXES, *FOLDERS, *(suffix for found in FORMATS.values() for suffix in found.member_suffixes)))
)
"""Endings of all files that belong to a recording."""
