"""From drafts to a loader: check and divide the memory, choose residencies, collect notes for the user."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from outofcore.loading.drafts import Draft, Wish
from outofcore.loading.epochs import Batching, Engine, Loader, Stream
from outofcore.loading.memory import Choice, Kind, choose, in_flight
from outofcore.loading.state import Identity
from outofcore.loading.transfer import Transfer
from outofcore.sizes import format_bytes


def assemble(
    drafts: Sequence[Draft],
    wish: Wish,
    batching: Batching,
    *,
    budget: int,
    residency: Kind,
    device: torch.device | None,
) -> Loader:
    """A loader that stays within the budget; raises BudgetError if that is impossible."""
    needs = [each.needs for each in drafts]
    choices = choose(residency, needs, budget, device)
    streams = tuple(
        Stream(
            split=each.split,
            sampler=each.sampler,
            residency=choice.kind,
            reason=choice.reason,
            open=partial(choice.open, each.split, device),
            part=each.split.store.parts.index(each.split.part) if len(drafts) > 1 else None,
        )
        for each, choice in zip(drafts, choices, strict=True)
    )
    depth, together = in_flight(needs, choices, budget)
    engine = Engine(
        threads=wish.threads,
        depth=depth,
        together=together,
        transfer=Transfer(device),
    )
    first = drafts[0].split
    identity = Identity(
        first.store.digest,
        first.name,
        ",".join(each.split.part for each in drafts),
        wish.seed,
        _layout(drafts, batching),
    )
    return Loader(streams, batching, engine, identity, _notes(drafts, choices, batching, budget, wish.threads))


def _layout(drafts: Sequence[Draft], batching: Batching) -> dict[str, object]:
    if len(drafts) == 1:
        return drafts[0].sampler.describe()
    several = {each.split.part: each.sampler.describe() for each in drafts}
    return {**several, "batch_size": batching.size, "turns": batching.turns}


def _notes(
    drafts: Sequence[Draft], choices: Sequence[Choice], batching: Batching, budget: int, threads: int
) -> tuple[str, ...]:
    allowed = f"memory {format_bytes(budget)}, {threads} threads"
    notes = []
    for each, choice in zip(drafts, choices, strict=True):
        path = each.split.path
        notes += [f"{path}: residency {choice.kind}: {choice.reason} ({allowed})", f"{path}: {each.mixing}"]
        rest = each.sampler.positions % batching.size
        if rest and batching.last == "drop":
            notes.append(f"{path}: {rest:,} samples are dropped each epoch, so that all batches hold {batching.size:,}")
        if rest and batching.last == "pad":
            again = batching.size - rest
            notes.append(f"{path}: {again:,} samples come twice each epoch, so that all batches hold {batching.size:,}")
    return tuple(notes)
