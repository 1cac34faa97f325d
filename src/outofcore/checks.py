"""Checks of arguments: a wrong one is named in a one-line error."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import NoReturn, TypeVar

import numpy as np

from outofcore.errors import ParamsError
from outofcore.ndarrays import Ints

Instance = TypeVar("Instance")

MOST = 2**31 - 1
"""Largest count of anything in training: products of two larger counts could exceed 64 bits."""


def refuse(name: str, expected: str, value: object, cause: BaseException | None = None) -> NoReturn:
    """Raise the error of a wrong argument."""
    raise ParamsError(f"{name}: expected {expected}, got {shown(value, 80)}") from cause


def shown(value: object, most: int = 300) -> str:
    """A value as Python writes it, on one line of at most so many characters."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # an integer of too many digits, or too deeply nested
        text = f"an unprintable {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def whole(name: str, value: object, least: int, most: int = MOST) -> int:
    """An integer, including numpy's."""
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        refuse(name, f"a whole number from {least:,} to {most:,}", value)
    return number


def whole_or_none(name: str, value: object, least: int, most: int = MOST) -> int | None:
    return None if value is None else whole(name, value, least, most)


def flag(name: str, value: object) -> bool:
    """True or False only, not merely truthy or falsy."""
    if not isinstance(value, bool | np.bool_):
        refuse(name, "True or False", value)
    return bool(value)


def one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    """One of the given words."""
    if not isinstance(value, str) or value not in allowed:
        refuse(name, f"one of {', '.join(allowed)}", value)


def word(name: str, value: object) -> str:
    if not isinstance(value, str):
        refuse(name, "a name", value)
    return value


def words(name: str, value: object) -> tuple[str, ...]:
    """Distinct names, at least one."""
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        if len(set(value)) == len(value):
            return tuple(value)
        refuse(name, "each name once", value)
    refuse(name, "a tuple of names", value)


def instance(name: str, value: object, kind: type[Instance]) -> Instance | None:
    """An instance of a dataclass, built from a mapping of its fields if necessary; or None."""
    if value is None or isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        refuse(name, f"a {kind.__name__}, or a mapping of its fields", value)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    unknown = [key for key in value if key not in known]
    if unknown:
        refuse(name, f"keys among {', '.join(known)}", unknown[0])
    try:
        return kind(**value)
    except TypeError as error:  # names the keys that are missing
        raise ParamsError(f"{name}: {str(error).partition('() ')[2]}") from error


def integers(name: str, value: object) -> Ints:
    """A one-dimensional array of integers."""
    array = np.asarray(value)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        refuse(name, "an array of whole numbers with one axis", value)
    return array.astype(np.int64, copy=False)
