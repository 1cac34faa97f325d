"""Batches of a store: shuffled, exact, resumable, in a stated budget of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.distributed

from outofcore.domains.reading import Reading
from outofcore.errors import ParamsError
from outofcore.hardware import usable_cores
from outofcore.loading.arguments import (
    budget_bytes,
    made,
    named_device,
    one_of,
    opened,
    refuse,
    whole,
    whole_or_none,
    word,
    words,
)
from outofcore.loading.assemble import assemble
from outofcore.loading.balanced import Balanced
from outofcore.loading.drafts import Wish, draft
from outofcore.loading.epochs import Batching, Loader
from outofcore.loading.memory import Kind
from outofcore.loading.order import LANES, Shuffle
from outofcore.loading.spans import Last, Share
from outofcore.loading.split import open_split
from outofcore.loading.turns import Turns
from outofcore.loading.weighted import Weighted
from outofcore.loading.windows import Window
from outofcore.store.reader import Store

_MOST_THREADS = 8  # a training step rarely consumes more than so many cores can make
_MOST_ASKED = 1024


def loader(
    store: Store | str | Path,
    split: str = "train",
    batch_size: int = 1024,
    *,
    shuffle: Shuffle = True,
    seed: int = 0,
    memory: str | int = "256MiB",
    residency: Kind = "auto",
    tensors: Reading | Mapping[str, Reading] | Literal["stored"] | None = None,
    fields: tuple[str, ...] | None = None,
    window: Window | Mapping[str, Any] | None = None,
    phase: bool | None = None,
    pool_blocks: int = 64,
    block_rows: int | None = None,
    weighted: Weighted | Mapping[str, Any] | None = None,
    balanced: Balanced | Mapping[str, Any] | None = None,
    part: str | Sequence[str] | None = None,
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
        What turns rows into tensors, for all parts or by part, such as ``reading(store, lags=32)``. By default
        ``reading(store)``, or the stored fields where the store's domain has no ready tensors. ``"stored"``: the stored
        fields. Random changes (mirror images, symmetries) are made in the split ``train`` only.
    fields
        The stored fields to read, instead of tensors.
    window
        Rows of a sample; None for what the tensors need, or else single rows.
    phase
        Whether windows start elsewhere each epoch; None for what the tensors' settings say, in the split ``train``.
    pool_blocks
        Blocks in memory at a time: how well batches mix.
    block_rows
        Rows of a block; None for one chunk, or four with windows.
    weighted
        Draw samples by weight.
    balanced
        Draw batches of groups; takes the place of ``shuffle``.
    part
        Which part of the store, such as a recording session; None for all. Several are read together, each batch from
        one of them, with its place in the store as ``part`` (batch,).
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
    if weighted is not None and balanced is not None:
        message = "give weighted or balanced, not both: each draws the samples in its own way"
        raise ParamsError(message)
    one_of("last", last, get_args(Last))
    one_of("turns", turns, get_args(Turns))
    one_of("residency", residency, get_args(Kind))
    if not isinstance(shuffle, bool) and not (isinstance(shuffle, str) and shuffle in ("blocks", "full")):
        refuse("shuffle", 'True, False, "blocks" or "full"', shuffle)
    budget, where = budget_bytes(memory), named_device(device)
    groups = made("balanced", balanced, Balanced)
    size = groups.size if groups is not None else whole("batch_size", batch_size, 1)
    share = _share(rank, world_size, size)
    wish = Wish(
        batch_size=size,
        shuffle=shuffle,
        seed=whole("seed", seed, 0, 2**64 - 1),
        pool_blocks=whole("pool_blocks", pool_blocks, 1),
        block_rows=whole_or_none("block_rows", block_rows, 1),
        balanced=groups,
        weighted=made("weighted", weighted, Weighted),
        label=None if label is None else word("label", label),
        world=share.world,
        threads=whole_or_none("threads", threads, 1, _MOST_ASKED) or min(usable_cores().value, _MOST_THREADS),
    )
    names = None if fields is None else words("fields", fields)
    source, split = opened(store), word("split", split)
    parts = source.parts if part is None else (part,) if isinstance(part, str) else words("part", part)
    drafts = [draft(open_split(source, split, each, tensors, names, window, phase), wish) for each in parts]
    return assemble(
        drafts,
        wish,
        Batching(size=size, share=share, last=last, turns=turns),
        budget=budget,
        residency=residency,
        device=where,
    )


def _share(rank: int | None, world: int | None, batch_size: int) -> Share:
    if (rank is None) != (world is None):
        message = f"rank and world_size go together, got rank {rank} of {world}"
        raise ParamsError(message)
    if rank is None or world is None:
        here = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank, world = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if here else (0, 1)
    rank, world = whole("rank", rank, 0), whole("world_size", world, 1)
    if LANES % world or rank >= world:
        message = f"the number of ranks must divide {LANES}, ranks count from 0; got rank {rank} of {world}"
        raise ParamsError(message)
    if batch_size < 1 or batch_size % world:
        message = f"batch_size counts over all ranks and must be a multiple of them, got {batch_size} on {world} ranks"
        raise ParamsError(message)
    return Share(rank, world)
