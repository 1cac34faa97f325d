"""A saved position of a loader: what it holds, and its check against what the loader that resumes would save."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from outofcore.checks import shown, whole
from outofcore.errors import ParamsError, StateError
from outofcore.loading.epoch import SplitReader
from outofcore.order.batching import StepOrder, Steps

VERSION = 2  # of the order too


def layout_of(readers: Sequence[SplitReader], steps: StepOrder) -> dict[str, Any]:
    """What determines the order of parts that are read together, apart from stores and seed."""
    if len(readers) == 1:
        return readers[0].describe()
    several = {reader.split.part: reader.describe() for reader in readers}
    return {**several, "batch_size": steps.batching.size, "turns": steps.turns}


def state_of(
    readers: Sequence[SplitReader], layout: Mapping[str, Any], steps: StepOrder, skip: Steps, epoch: int, received: int
) -> dict[str, Any]:
    """The position after ``received`` samples of an epoch, and the steps before it that ``skip`` leaves out, if any."""
    first, size = readers[0].split, steps.batching.size
    digests = [store.digest for store in first.stores]
    state = {
        "version": VERSION,
        "store": digests[0] if len(digests) == 1 else digests,
        "split": first.name,
        "part": ",".join(reader.split.part for reader in readers),
        "seed": readers[0].seed,
        "layout": dict(layout),
        "epoch": epoch,
        "received": received,
    }
    skipped = skip.until(steps.before(epoch, received)) if skip else []
    inside_step = skip and len(readers) == 1 and received < steps.samples and received % size
    return {**state, "skip": {"batch_size": size, "steps": skipped}} if skipped or inside_step else state


def check_state(state: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise StateError if a state is malformed, or has other values than the expected ones."""
    try:
        own, other = _leaves(expected), _leaves(state)
    except (TypeError, ValueError, RecursionError):  # not what a loader saves
        raise StateError(f"expected a loader's state, got {shown(state)}") from None
    differing = [name for name in own | other if own.get(name) != other.get(name)]
    if not differing:
        return
    tops = [name.partition(".")[0] for name in differing]
    what = next(name for name in (*expected, *map(str, state)) if name in tops)
    if what == "skip":
        raise StateError(
            f"the saved state left out {shown(state.get('skip', {}))} before its position, this loader "
            f"{shown(expected.get('skip', {}))}: give the same skip, and batch_size, or begin without it"
        )
    in_both = [name for name in differing if name in own and name in other]
    of_order = [name for name in in_both if name.rpartition(".")[2] in ("version", "order")]
    if of_order:
        raise StateError(
            f"the saved state is of version {other[of_order[0]][:80]} of the order of samples, expected version "
            f"{own[of_order[0]]}: continue with the release that saved it, or begin without it"
        )
    names = [name for name in differing if name.partition(".")[0] == what]
    values, saved = (", ".join(f"{name} {leaves.get(name, 'none')}" for name in names) for leaves in (own, other))
    raise StateError(
        f"the saved state belongs to another {shown(what, 80)[1:-1]}: expected {shown(values, 80)[1:-1]}, the state "
        f"has {shown(saved, 80)[1:-1]}; load it with what it was saved with, or begin without it"
    )


def _leaves(value: object, name: str = "") -> dict[str, str]:
    """JSON texts of nested values by dotted name; of lists and tuples alike, whose values count from 1."""
    if not isinstance(value, Mapping | list | tuple) or not value:
        return {name: json.dumps(value)}
    leaves: dict[str, str] = {}
    for inner, inner_value in value.items() if isinstance(value, Mapping) else enumerate(value, 1):
        leaves |= _leaves(inner_value, f"{name}.{inner}" if name else str(inner))
    return leaves


def count_in(state: Mapping[str, Any], name: str, most: int) -> int:
    """A count of a state; raises StateError if it is missing or out of range."""
    if name not in state:
        raise StateError(f"expected a loader's state, got one without {name}: {shown(state, 80)}")
    try:
        return whole(f"the saved state's {name}", state[name], 0, most)
    except ParamsError as error:
        raise StateError(str(error)) from None
