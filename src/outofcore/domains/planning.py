"""What a domain may add to ``outofcore plan``: tables of its own. A domain that has nothing to add leaves this out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from outofcore.raw.files import RawFile

if TYPE_CHECKING:
    from outofcore.machine import Machine

Kind = Literal["text", "count", "bytes"]
"""How the values of a column are shown; ``count`` and ``bytes`` are whole numbers, None where there is none."""


@dataclass(frozen=True)
class PlanTable:
    """A table of the plan.

    Attributes
    ----------
    name
        Its key for programs.
    title
        The line above it, for a person.
    columns
        Names of the columns, in order, and the kind of each.
    rows
        A value for each column.
    notes
        Lines below it.
    """

    name: str
    title: str
    columns: Mapping[str, Kind]
    rows: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outlook:
    """What the plan knows when it asks a domain.

    Attributes
    ----------
    files
        The raw input.
    machine
        Memory, workers, micro-batch, margin and reserve of the disk.
    rows, store_bytes
        The forecast of the store.
    free_bytes
        Free space where the store will stand, without the reserve that stays free.
    store_copies
        How often the store stands on that disk at the most, the copy counted that DVC makes while it commits.
    process_bytes
        Measures the memory of a training process before it has data or a model, given the optimizer's name.
    last_run
        ``metrics/<domain>/train.json`` and ``train_run.json`` of the last training in one; empty if there was none.
    """

    files: Sequence[RawFile]
    machine: Machine
    rows: int
    store_bytes: int
    free_bytes: int
    process_bytes: Callable[[str], int]
    last_run: Mapping[str, Any] = field(default_factory=dict)
    store_copies: int = 1


@runtime_checkable
class Planning(Protocol):
    """A domain that adds to the plan."""

    def plan(self, section: Any, outlook: Outlook) -> tuple[PlanTable, ...]:
        """The domain's own tables."""
        ...
