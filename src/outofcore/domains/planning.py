"""Optional interface of a domain that adds tables to ``outofcore plan``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from outofcore.inspect.table import Table
from outofcore.raw.files import RawFile

if TYPE_CHECKING:
    from outofcore.machine import Machine


@dataclass(frozen=True)
class Outlook:
    """What the plan knows when it calls a domain."""

    files: Sequence[RawFile]
    machine: Machine  # memory, workers, micro-batch, disk margin and reserve
    rows: int  # forecast
    store_bytes: int  # forecast
    free_bytes: int  # free space for the store, without the reserve
    process_bytes: Callable[[str], int]  # measures a training process without data or model, given the optimizer's name
    # merged train.json and train_run.json of the last training; empty if none
    last_run: Mapping[str, Any] = field(default_factory=dict)
    store_copies: int = 1  # most copies of the store on that disk, including DVC's during a commit


@runtime_checkable
class Planning(Protocol):
    """A domain that adds to the plan."""

    def plan(self, section: Any, outlook: Outlook) -> tuple[Table, ...]:
        """The domain's own tables."""
        ...
