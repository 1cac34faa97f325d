"""Choose the residency for a budget and a machine, with a one-line reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from outofcore.errors import BudgetError, ParamsError, StoreError
from outofcore.loading.budget import Needs, prove
from outofcore.loading.residency.arena import Arena
from outofcore.loading.residency.base import Residency
from outofcore.loading.residency.device import OnDevice
from outofcore.loading.residency.mapped import Mapped
from outofcore.sizes import format_bytes
from outofcore.store.reader import Array

Kind = Literal["auto", "ram", "mapped", "streamed", "hybrid", "device"]

# Below this share of the chunks, keeping some saves too little.
_WORTH_KEEPING = 0.1

# The rest of an accelerator's free memory is for the model.
_DEVICE_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A residency and why it was chosen."""

    kind: Kind  # never "auto"
    reason: str  # one line for the user
    passing: int = 0  # slots for temporary chunks; 0 if not applicable
    kept: int = 0  # chunks that stay; 0 if not applicable

    @property
    def held(self) -> int:
        """Chunks in host memory."""
        return self.passing + self.kept


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What the choice depends on."""

    needs: Needs
    budget: int  # bytes that the loader may hold
    page_cache: int  # bytes that the system can use for cached files
    mappable: bool  # all fields are in uncompressed local files
    full_shuffle: bool  # rows are drawn from the whole split at once
    pool_blocks: int  # for the message of a refusal
    device_room: int = 0  # free memory of the accelerator, if batches can be made there
    recurring: bool = False  # chunks recur soon (as in sampling by groups), so recently used ones are kept


def choose(kind: Kind, case: Circumstances) -> Choice:
    """Choose a residency, or check the user's choice.

    Raises BudgetError if it cannot stay within the budget, ParamsError if it does not exist, StoreError for mapping
    compressed or remote shards.
    """
    if kind not in get_args(Kind):
        message = f"residency must be one of {', '.join(get_args(Kind))}, got {kind!r}"
        raise ParamsError(message)
    if kind == "auto":
        return _automatic(case)
    if case.full_shuffle and kind in ("streamed", "hybrid"):
        message = (
            f"shuffle='full' draws rows from everywhere at once; residency {kind!r} has a pool in memory at a time: "
            "use shuffle='blocks', or residency 'ram' or 'mapped'"
        )
        raise BudgetError(message)
    needs, budget = case.needs, case.budget
    if kind == "ram":
        if needs.whole > budget:
            message = (
                f"residency 'ram' holds {format_bytes(needs.whole)}, the budget is {format_bytes(budget)}: "
                "raise memory, or use residency 'auto'"
            )
            raise BudgetError(message)
        return Choice(kind="ram", kept=needs.chunks, reason="as asked")
    if kind == "mapped" and not case.mappable:
        message = (
            "residency 'mapped' needs a store with codec 'none' on a disk of this machine: "
            "use residency 'streamed', or convert with store.codec: none"
        )
        raise StoreError(message)
    if kind in ("mapped", "device"):
        _hold(needs.fixed, budget)
        return Choice(kind=kind, reason="as asked")
    prove(budget, [needs], case.pool_blocks)
    if kind == "hybrid":
        return _hybrid(case, "as asked; beside two pools, {share:.0%} of the rows stay")
    return Choice(kind="streamed", passing=needs.slots, reason="as asked")


def _automatic(case: Circumstances) -> Choice:
    needs, budget = case.needs, case.budget
    size = f"{format_bytes(needs.chunk * needs.chunks)} decoded"
    allowed = f"the budget of {format_bytes(budget)}"
    if needs.chunk * needs.chunks <= _DEVICE_SHARE * case.device_room and needs.fixed <= budget:
        room = f"{format_bytes(case.device_room)} free on the accelerator"
        return Choice(kind="device", reason=f"{size} take little of {room}")
    if needs.whole <= budget:
        return Choice(kind="ram", kept=needs.chunks, reason=f"{size} fit {allowed}")
    cached = case.mappable and needs.chunk * needs.chunks <= case.page_cache
    if cached or (case.full_shuffle and case.mappable):
        _hold(needs.fixed, budget)
        room = f"{format_bytes(case.page_cache)} of memory can cache files"
        return Choice(kind="mapped", reason=f"{size} exceed {allowed}; stored uncompressed, and {room}")
    if case.full_shuffle:
        message = (
            f"shuffle='full' needs the split in memory: {size} exceed {allowed}, and only uncompressed shards on "
            "a local disk can be mapped; use shuffle='blocks', raise memory, or convert with store.codec: none"
        )
        raise BudgetError(message)
    prove(budget, [needs], case.pool_blocks)
    if needs.keep(budget) >= _WORTH_KEEPING * needs.chunks:
        return _hybrid(case, f"{size} exceed {allowed}, which holds {{share:.0%}} of them beside two pools")
    return Choice(kind="streamed", passing=needs.slots, reason=f"{size} exceed {allowed}")


def _hybrid(case: Circumstances, reason: str) -> Choice:
    needs = case.needs
    kept = needs.keep(case.budget)
    reason = reason.format(share=kept / max(needs.chunks, 1))
    if case.recurring:
        return Choice(kind="hybrid", passing=needs.slots + kept, reason=reason)
    return Choice(kind="hybrid", passing=needs.slots, kept=kept, reason=reason)


def _hold(bytes_held: int, budget: int) -> None:
    if bytes_held > budget:
        message = (
            f"a memory budget of {format_bytes(budget)} is too small: batches in flight, order and tables take "
            f"{format_bytes(bytes_held)}"
        )
        raise BudgetError(message)


def make(choice: Choice, fields: Mapping[str, Array], length: int, device: torch.device | None) -> Residency:
    """Create the residency that was chosen."""
    if choice.kind == "mapped":
        return Mapped(fields, length)
    if choice.kind == "device":
        return OnDevice(fields, length, device or torch.device("cpu"))
    return Arena(fields, length, choice.passing, choice.kept)
