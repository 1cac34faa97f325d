"""Batches of a store: shuffled, exact, resumable, in a stated budget of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import torch
import torch.distributed

from outofcore.domains.reading import Reading
from outofcore.errors import ParamsError
from outofcore.hardware import usable_cores
from outofcore.loading.assemble import assemble
from outofcore.loading.budget import budget_bytes
from outofcore.loading.drafts import Wish, draft
from outofcore.loading.epochs import Batching, Loader
from outofcore.loading.order import LANES, Shuffle
from outofcore.loading.residency.choose import Kind
from outofcore.loading.sampling.balanced import Balanced
from outofcore.loading.sampling.weighted import Weighted
from outofcore.loading.spans import Last, Share
from outofcore.loading.turns import Turns
from outofcore.loading.windows import Window
from outofcore.store.reader import Store, open_store

_MOST_THREADS = 8  # a training step rarely consumes more than so many cores can make


def loader(
    store: Store | str | Path,
    split: str = "train",
    batch_size: int = 1024,
    *,
    shuffle: Shuffle = True,
    seed: int = 0,
    memory: str | int = "256MiB",
    residency: Kind = "auto",
    tensors: Reading | Mapping[str, Reading] | None = None,
    fields: tuple[str, ...] | None = None,
    window: Window | Mapping[str, Any] | None = None,
    phase: bool = False,
    pool_blocks: int = 64,
    block_rows: int | None = None,
    weighted: Weighted | Mapping[str, Any] | None = None,
    balanced: Balanced | Mapping[str, Any] | None = None,
    part: str | Sequence[str] = "",
    turns: Turns = "size",
    rank: int | None = None,
    world_size: int | None = None,
    last: Last = "keep",
    device: str | torch.device | None = None,
    label: str | None = None,
    threads: int | None = None,
) -> Loader:
    """Batches of a split.

    The order of samples depends on the store, ``split``, ``part``, ``seed``, the epoch, ``shuffle``, ``window``,
    ``phase``, ``pool_blocks``, ``block_rows``, ``weighted``, ``balanced`` and, with several parts, on ``turns`` and
    ``batch_size``; on nothing else. Memory, residency, threads, ranks and device change none of it.

    Parameters
    ----------
    store
        A store, or its folder.
    split
        Which split.
    batch_size
        Samples of a batch, over all ranks; with ``balanced`` it follows from that.
    shuffle
        True or ``"blocks"``: blocks, and rows inside a pool of blocks. ``"full"``: a permutation of all samples, for
        residencies that hold or map the split. False: the order of the store.
    seed
        Another seed, another order.
    memory
        All that the loader may hold, ``"256MiB"``; proved before reading.
    residency
        ``"ram"``, ``"mapped"``, ``"streamed"``, ``"hybrid"``, ``"device"``, or ``"auto"``.
    tensors
        What makes tensors of rows, for all parts or by part; None for the stored fields as they are.
    fields
        Without ``tensors``, the fields to read; None for all.
    window
        Rows of a sample; None for single rows.
    phase
        Whether windows start elsewhere each epoch.
    pool_blocks
        Blocks in memory at a time: how well batches mix.
    block_rows
        Rows of a block; None for one chunk, or four with windows.
    weighted
        Draw samples by weight.
    balanced
        Draw batches of groups; takes the place of ``shuffle``.
    part
        Which part of the store; several are read together, each batch from one of them, with its place in the store as
        ``part`` (batch,).
    turns
        With several parts: batches at random in proportion to ``"size"``, or one of each in ``"turn"``.
    rank, world_size
        Which rank of how many; by default those of ``torch.distributed``, if it is initialised.
    last
        A last batch that is not full is kept, dropped, or padded by samples seen before.
    device
        Where batches go; None leaves them in this machine's memory.
    label
        A column of the sequences whose mixing is to be measured.
    threads
        Workers; by default one a core, 8 at most.

    Raises
    ------
    BudgetError
        If the memory is too little for what the order asks for.
    StoreError
        If there is no such store, split or field.
    ParamsError
        If a parameter cannot be met.
    """
    if tensors is not None and fields is not None:
        message = "give tensors or fields, not both: what makes tensors names its own fields"
        raise ParamsError(message)
    for name, value, allowed in (("last", last, get_args(Last)), ("turns", turns, get_args(Turns))):
        if value not in allowed:
            message = f"{name} must be one of {', '.join(allowed)}, got {value!r}"
            raise ParamsError(message)
    opened = store if isinstance(store, Store) else open_store(store)
    groups = Balanced(**balanced) if isinstance(balanced, Mapping) else balanced
    size = groups.size if groups is not None else batch_size
    share = _share(rank, world_size, size)
    wish = Wish(
        batch_size=size,
        shuffle=shuffle,
        seed=seed,
        pool_blocks=pool_blocks,
        block_rows=block_rows,
        window=Window(**window) if isinstance(window, Mapping) else window,
        phase=phase,
        balanced=groups,
        weighted=Weighted(**weighted) if isinstance(weighted, Mapping) else weighted,
        label=label,
        world=share.world,
        threads=threads or min(usable_cores().value, _MOST_THREADS),
    )
    parts = (part,) if isinstance(part, str) else tuple(part)
    drafts = [
        draft(opened, split, each, tensors[each] if isinstance(tensors, Mapping) else tensors, fields, wish)
        for each in parts
    ]
    return assemble(
        drafts,
        wish,
        Batching(size=size, share=share, last=last, turns=turns),
        budget=budget_bytes(memory),
        residency=residency,
        device=torch.device(device) if device is not None else None,
    )


def _share(rank: int | None, world: int | None, batch_size: int) -> Share:
    if rank is None or world is None:
        here = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank, world = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if here else (0, 1)
    if LANES % world or not 0 <= rank < world:
        message = f"the number of ranks must divide {LANES}, ranks count from 0; got rank {rank} of {world}"
        raise ParamsError(message)
    if batch_size < 1 or batch_size % world:
        message = f"batch_size counts over all ranks and must be a multiple of them, got {batch_size} on {world} ranks"
        raise ParamsError(message)
    return Share(rank, world)
