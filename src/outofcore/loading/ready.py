"""What a loader uses where it is told nothing: the tensors of the store's domain, and the windows that they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from outofcore.domains.reading import Reading, Windowed
from outofcore.domains.registry import DOMAINS
from outofcore.errors import ParamsError
from outofcore.loading.arguments import flag, made, reading, refuse
from outofcore.loading.windows import Window
from outofcore.store.reader import Store
from outofcore.tensors import reading as domain_reading

Tensors = Reading | Mapping[str, Reading] | Literal["stored"] | None


def reading_of(store: Store, part: str, tensors: Tensors, fields: tuple[str, ...] | None) -> Reading | None:
    """The reading of a part; None for its stored fields."""
    if tensors is not None and fields is not None:
        message = "give tensors or fields, not both: what makes tensors names its own fields"
        raise ParamsError(message)
    if tensors is None:
        return domain_reading(store) if fields is None and store.domain in DOMAINS else None
    if isinstance(tensors, str):
        if tensors != "stored":
            refuse("tensors", 'what turns rows into tensors, such as reading(store), or "stored"', tensors)
        return None
    if not isinstance(tensors, Mapping):
        return reading("tensors", tensors)
    if part not in tensors:
        refuse("tensors", f"a reading for part {part!r}", list(tensors))
    return reading(f"tensors[{part!r}]", tensors[part])


def window_of(window: object, tensors: Reading | None) -> Window | None:
    """The rows of a sample: as asked for, or as the tensors need them.

    Raises
    ------
    ParamsError
        If the tensors need windows of another length.
    """
    asked = made("window", window, Window)
    needed = made("window", tensors.window, Window) if isinstance(tensors, Windowed) else None
    if asked is not None and needed is not None and asked.length != needed.length:
        message = (
            f"window: these tensors need windows of {needed.length:,} rows, got {asked.length:,}; "
            "change the settings of reading(store, ...) instead"
        )
        raise ParamsError(message)
    return asked or needed


def phase_of(phase: object, split: str, tensors: Reading | None) -> bool:
    """Whether windows move from epoch to epoch: as asked for, or as the tensors' settings say where one trains."""
    if phase is not None:
        return flag("phase", phase)
    return split == "train" and bool(getattr(tensors, "phase", False))
