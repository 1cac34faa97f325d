"""What a domain learns that adds tables to ``outofcore plan``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from outofcore.raw.files import RawFile
from outofcore.store.schema import Schema

if TYPE_CHECKING:
    from outofcore.settings.machine import Machine


class LoaderBytes(NamedTuple):
    """Bytes that the loaders of a training run hold, by residency."""

    loaded: int
    streamed: int  # at least
    mapped: int  # in addition to the page cache


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What the plan knows when it calls a domain."""

    files: Sequence[RawFile]
    machine: Machine  # memory, workers, micro-batch, disk margin and reserve
    memory: int  # bytes for the whole training process
    free_bytes: int  # free space for the store, without the reserve
    store_copies: int = 1  # most copies of the store on that disk, including DVC's during a commit
    sizes: bool = False  # whether other settings than those of the section are asked for
    # what the loaders of splits hold, from a section, the schemas and the rows of each part, for each split
    loaders: Callable[[Any, Mapping[str, Schema], Sequence[Mapping[str, int]]], LoaderBytes]
    # bytes of the process that trains a section with a micro-batch, by the way of reading
    takes: Callable[[Any, int], Mapping[str, int]]
