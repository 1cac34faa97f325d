"""From drafts to a loader: check and divide the memory, choose residencies, collect notes for the user."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from outofcore.domains.reading import DeviceReading, Reading
from outofcore.hardware import usable_memory
from outofcore.loading.budget import divide, prove
from outofcore.loading.drafts import Draft, Wish
from outofcore.loading.epochs import Batching, Engine, Loader, Stream
from outofcore.loading.residency.choose import Choice, Circumstances, Kind, choose, make
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
    if len(drafts) > 1:
        prove(budget, needs, wish.pool_blocks)
    shares = divide(budget, needs) if len(drafts) > 1 else [budget]
    choices = [
        choose(residency, _circumstances(each, wish, share, device)) for each, share in zip(drafts, shares, strict=True)
    ]
    streams = tuple(
        Stream(
            split=each.split,
            sampler=each.sampler,
            residency=choice.kind,
            reason=choice.reason,
            open=partial(make, choice, each.split.fields, each.split.windows.length, device),
            part=each.split.store.parts.index(each.split.part) if len(drafts) > 1 else None,
        )
        for each, choice in zip(drafts, choices, strict=True)
    )
    held = sum(each.needs.fixed + choice.held * each.needs.chunk for each, choice in zip(drafts, choices, strict=True))
    largest = max(needs, key=lambda each: each.batch)
    depth, together = largest.in_flight(max(0, budget - held))
    engine = Engine(
        threads=wish.threads,
        depth=depth,
        together=together if len(drafts) == 1 else 1,
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


def _circumstances(draft: Draft, wish: Wish, budget: int, device: torch.device | None) -> Circumstances:
    return Circumstances(
        needs=draft.needs,
        budget=budget,
        page_cache=usable_memory().value,
        mappable=draft.split.mappable,
        full_shuffle=wish.shuffle == "full" and wish.balanced is None,
        pool_blocks=wish.pool_blocks,
        device_room=_device_room(device, draft.split.reading),
        recurring=wish.balanced is not None,
    )


def _device_room(device: torch.device | None, reading: Reading) -> int:
    """Free memory of an accelerator on which rows can be gathered and read; 0 without one."""
    if device is None or device.type != "cuda" or not isinstance(reading, DeviceReading):
        return 0
    return int(torch.cuda.mem_get_info(device)[0])


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
