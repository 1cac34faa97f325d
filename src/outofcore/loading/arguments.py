"""Check arguments of the loader and its parts; a wrong one is named in a one-line error."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch

from outofcore.domains.reading import Reading
from outofcore.domains.sections import MOST
from outofcore.errors import ParamsError
from outofcore.ndarrays import Ints
from outofcore.params import settings_named
from outofcore.settings.sizes import parse_bytes
from outofcore.store.opening import open_data
from outofcore.store.reader import Store

Instance = TypeVar("Instance")


def refuse(name: str, expected: str, value: object, cause: BaseException | None = None) -> NoReturn:
    """Raise the error of a wrong argument."""
    raise ParamsError(f"{name}: expected {expected}, got {shown(value, 80)}") from cause


# What other libraries call it, and what it is here.
_ELSEWHERE = {
    "collate_fn": "map= is a function of each batch",
    "drop_last": "write last='drop'",
    "generator": "write seed=",
    "num_workers": "a loader has threads of its own, of which threads= sets the number",
    "persistent_workers": "a loader keeps its threads",
    "pin_memory": "write device='cuda', and batches arrive there",
    "prefetch_factor": "memory= decides how much is read ahead",
    "sampler": "write shuffle=, weighted= or balanced=; ZarrDataset in a DataLoader takes any sampler",
    "seq_len": "write window={'length': ..., 'stride': ...}",
    "transform": "map= is a function of each batch",
    "workers": "a loader has threads of its own, of which threads= sets the number",
}


def refuse_unknown(where: str, known: Sequence[str], arguments: Mapping[str, object], domains: Sequence[str]) -> None:
    """Raise ParamsError for the first argument that there is not, with what may be meant.

    ``domains`` are those of the stores, whose settings some look for here.
    """
    for name, value in arguments.items():
        sections = {section for domain in domains for section in settings_named(name, domain)}
        close = difflib.get_close_matches(name, known, n=1)
        hint = ""
        if "tensors" in sections:
            hint = f"write tensors=outofcore.reading(store, {name}={shown(value, 40)})"
        elif name in _ELSEWHERE:
            hint = _ELSEWHERE[name]
        elif "filters" in sections:
            hint = "a conversion filters, outofcore.convert(..., filters={...}); where= selects from a store"
        elif close:
            hint = f"did you mean {close[0]!r}?"
        raise ParamsError(f"{where}: unknown argument {name!r}{f'; {hint}' if hint else ''}")


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


def opened_all(value: object, **options: Any) -> tuple[Store, ...]:
    """One store or several, as :func:`open_data` opens them."""
    if not isinstance(value, list | tuple):
        return open_data(value, **options).stores
    if not value:
        refuse("store", "at least one store", value)
    return tuple(open_data(source, **options) for source in value)


def opened_sources(value: object, **options: Any) -> dict[str, tuple[Store, ...]]:
    """Stores by the source of a mixture; those of a single one, without a name, unless a mapping is given."""
    sources = value if isinstance(value, Mapping) else {"": value}
    if not sources:
        refuse("store", "at least one source", value)
    return {
        word("store, the name of a source", name): opened_all(source, **options) for name, source in sources.items()
    }


def makes_tensors(name: str, value: object) -> Reading | None:
    """A callable that makes tensors of rows, or None."""
    if value is None:
        return None
    names: Any = getattr(value, "fields", None)
    if isinstance(value, type) or not callable(value) or not isinstance(names, tuple | list):
        refuse(name, "what makes tensors of rows, such as reading(store)", value)
    return value  # type: ignore[return-value]  # has the attributes of a Reading


def budget_bytes(memory: str | int) -> int:
    """Bytes of a budget such as ``"256MiB"``; raises ParamsError if invalid."""
    try:
        return parse_bytes(memory)
    except ValueError as error:
        raise ParamsError(f"memory: {error}") from error


def named_device(device: object) -> torch.device | None:
    """A device with its index: ``cuda`` becomes ``cuda:0``, as in tensors; raises ParamsError if it is not here."""
    if device is None:
        return None
    expected = "a device of this machine, such as cpu, cuda:0 or mps"
    if not isinstance(device, str | torch.device):
        refuse("device", expected, device)
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch: one per kind of device
        refuse("device", expected, str(device), error)
