"""From a user's words to a loader: fields, samples, order, memory and residency."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
import torch.distributed

from outofcore.domains.domain import Reading
from outofcore.errors import ParamsError
from outofcore.hardware import usable_cores, usable_memory
from outofcore.loading.batch import DeviceReading, RawReading
from outofcore.loading.budget import Needs, budget_bytes
from outofcore.loading.epochs import Engine, Loader
from outofcore.loading.mixing import measure_mixing
from outofcore.loading.order import LANES, Shuffle
from outofcore.loading.residency.choose import Circumstances, Kind, choose, make
from outofcore.loading.sampling.base import Sampler
from outofcore.loading.sampling.plain import Plain, cut_samples
from outofcore.loading.schedule import Last, Share
from outofcore.loading.split import Split, open_split
from outofcore.loading.state import Identity
from outofcore.loading.transfer import Transfer
from outofcore.loading.windows import Window
from outofcore.sizes import format_bytes
from outofcore.store.reader import Store

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
    tensors: Reading | None = None,
    window: Window | None = None,
    phase: bool = False,
    pool_blocks: int = 64,
    block_rows: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    last: Last = "keep",
    device: str | torch.device | None = None,
    part: str = "",
    fields: tuple[str, ...] | None = None,
    label: str | None = None,
    threads: int | None = None,
) -> Loader:
    """Batches of a split.

    The order of samples depends on the store, ``seed``, the epoch, ``shuffle``, ``window``, ``phase``, ``pool_blocks``
    and ``block_rows``; on nothing else. Memory, residency, threads, ranks and device change none of it.

    Parameters
    ----------
    store
        A store, or its folder.
    split
        Which split.
    batch_size
        Samples of a batch, over all ranks.
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
        What makes tensors of rows; None for the stored fields as they are.
    window
        Rows of a sample; None for single rows.
    phase
        Whether windows start elsewhere each epoch.
    pool_blocks
        Blocks in memory at a time: how well batches mix.
    block_rows
        Rows of a block; None for one chunk, or four with windows.
    rank, world_size
        Which rank of how many; by default those of ``torch.distributed``, if it is initialised.
    last
        A last batch that is not full is kept, dropped, or padded by samples seen before.
    device
        Where batches go; None leaves them in this machine's memory.
    part
        Which part of the store.
    fields
        Without ``tensors``, the fields to read; None for all.
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
    if last not in get_args(Last):
        message = f"last must be one of {', '.join(get_args(Last))}, got {last!r}"
        raise ParamsError(message)
    source = open_split(store, split, part, tensors.fields if tensors is not None else fields)
    reading = tensors or RawReading({name: array.dtype for name, array in source.fields.items()})
    share = _share(rank, world_size, batch_size)
    windows = source.windows(window, phase=phase)
    cut = cut_samples(windows, source.chunk_rows, shuffle, pool_blocks, block_rows)
    sampler = Plain(windows, cut, seed, source.chunk_rows)
    if 0 < sampler.positions < share.world:
        message = (
            f"{source.store.root}: split {split!r} has {sampler.positions} samples for {share.world} ranks"
        )
        raise ParamsError(message)
    mixing = measure_mixing(source, sampler.epoch(0).order, windows, batch_size, label)
    return assemble(
        source,
        sampler,
        reading,
        batch_size=batch_size,
        share=share,
        last=last,
        seed=seed,
        length=windows.length,
        memory=budget_bytes(memory),
        residency=residency,
        full_shuffle=shuffle == "full",
        pool_blocks=pool_blocks,
        device=torch.device(device) if device is not None else None,
        threads=threads,
        mixing=mixing.text(batch_size, "sequences", label),
    )


def assemble(
    source: Split,
    sampler: Sampler,
    reading: Reading,
    *,
    batch_size: int,
    share: Share,
    last: Last,
    seed: int,
    length: int,
    memory: int,
    residency: Kind,
    full_shuffle: bool,
    pool_blocks: int,
    device: torch.device | None,
    threads: int | None,
    mixing: str,
) -> Loader:
    """A loader for any way of sampling, its memory proved."""
    threads = threads or min(usable_cores().value, _MOST_THREADS)
    own_batch = -(-batch_size // share.world)
    needs = Needs(
        chunk=source.row_bytes * source.chunk_rows,
        chunks=source.chunks,
        pool_chunks=sampler.pool_chunks(share.world),
        pool_samples=sampler.pool_samples(share.world),
        batch=own_batch * (source.row_bytes * length + _tensor_bytes(source, reading, length)),
        tables=sampler.table_bytes + source.index_bytes,
        threads=threads,
    )
    case = Circumstances(
        needs=needs,
        budget=memory,
        page_cache=usable_memory().value,
        compressed=any(array.codec.name != "none" for array in source.fields.values()),
        full_shuffle=full_shuffle,
        pool_blocks=pool_blocks,
        device_room=_device_room(device, reading),
    )
    choice = choose(residency, case)
    engine = Engine(
        residency=choice.kind,
        reason=choice.reason,
        make=lambda: make(choice, source.fields, length, device),
        threads=threads,
        depth=needs.batches(memory, choice.held),
        transfer=Transfer(device),
    )
    rest = sampler.positions % batch_size
    notes = [
        f"{source.name}: residency {choice.kind}: {choice.reason} (memory {format_bytes(memory)}, {threads} threads)",
        f"{source.name}: {mixing}",
    ]
    if rest and last != "keep":
        what = (
            f"{rest:,} samples are dropped" if last == "drop" else f"{batch_size - rest:,} samples come twice"
        )
        notes.append(f"{source.name}: {what} each epoch, so that all batches hold {batch_size:,}")
    identity = Identity(source.store.digest, source.name, source.part, seed, sampler.describe())
    return Loader(
        source,
        sampler,
        reading,
        engine,
        identity=identity,
        batch_size=batch_size,
        share=share,
        last=last,
        notes=tuple(notes),
    )


def _share(rank: int | None, world: int | None, batch_size: int) -> Share:
    if rank is None or world is None:
        here = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank, world = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if here else (0, 1)
    if LANES % world or not 0 <= rank < world:
        message = (
            f"the number of ranks must divide {LANES}, with ranks counted from 0; got rank {rank} of {world}"
        )
        raise ParamsError(message)
    if batch_size < 1 or batch_size % world:
        message = f"batch_size counts over all ranks and must be a multiple of them, got {batch_size} on {world} ranks"
        raise ParamsError(message)
    return Share(rank, world)


def _tensor_bytes(source: Split, reading: Reading, length: int) -> int:
    """Bytes of the tensors of one sample, from the first rows of the split."""
    if source.rows < length:
        return 0
    window = (length,) if length > 1 else ()
    rows: dict[str, Any] = {
        name: array.read(0, length).reshape(1, *window, *array.shape[1:])
        for name, array in source.fields.items()
    }
    batch = reading(rows, np.random.default_rng(0))
    return sum(tensor.nbytes for tensor in batch.values())


def _device_room(device: torch.device | None, reading: Reading) -> int:
    """Free memory of an accelerator on which rows can be gathered and read; 0 without one."""
    if device is None or device.type != "cuda" or not isinstance(reading, DeviceReading):
        return 0
    return int(torch.cuda.mem_get_info(device)[0])
