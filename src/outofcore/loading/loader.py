"""Batches of one store or several: shuffled, exact, resumable, in a stated budget of memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import signature
from itertools import chain
from math import gcd
from pathlib import Path
from typing import Any, Never, get_args

import torch

from outofcore.checks import instance, one_of, refuse, whole, whole_or_none, word, words
from outofcore.domains.reading import Reading
from outofcore.errors import BudgetError, ParamsError
from outofcore.loading.arguments import batching_of, budget_bytes, named_device, opened_sources, refuse_unknown
from outofcore.loading.epoch import SplitReader
from outofcore.loading.iteration import Loader
from outofcore.loading.memory import BatchBytes, measure, prove_tables, sample_bytes, smaller
from outofcore.loading.residency import ResidencyPlan, choose
from outofcore.loading.sequences import SOURCE
from outofcore.loading.split import field_names, open_split
from outofcore.loading.transform import Transform
from outofcore.order.batching import Last, StepOrder, Steps
from outofcore.order.plain import InOrder, Shuffle
from outofcore.order.sampling import PoolLimits, Sampling
from outofcore.order.windows import Window
from outofcore.settings.hardware import usable_cores
from outofcore.settings.residencies import ResidencyName
from outofcore.store.joined import check_stores
from outofcore.store.reader import Store
from outofcore.system.device import DeviceStream
from outofcore.system.recycling import Recycler, Recyclers

_MOST_THREADS = 8  # a training step rarely consumes more than so many cores can make
_MOST_ASKED = 1024


def loader(
    data: Store | str | Path | Sequence[Store | str | Path] | Mapping[str, Any],
    split: str = "train",
    batch_size: int = 1024,
    *,
    shuffle: bool | Sampling | Mapping[str, Any] = True,
    seed: int = 0,
    tensors: Reading | Mapping[str, Reading] | Sequence[str] | None = None,
    columns: tuple[str, ...] = (),
    where: str | None = None,
    window: Window | Mapping[str, Any] | None = None,
    map: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]] | None = None,  # noqa: A002  # the usual name
    part: str | Sequence[str] | None = None,
    memory: str | int = "256MiB",
    residency: ResidencyName = "auto",
    last: Last = "keep",
    skip: Sequence[int | Sequence[int]] = (),
    rank: int | None = None,
    world_size: int | None = None,
    device: str | torch.device | None = None,
    threads: int | None = None,
    **unknown: Never,
) -> Loader:
    """Batches of a split.

    The order of samples depends on the stores in the given order, ``split``, ``part``, ``seed``, the epoch,
    ``shuffle``, ``window``, ``where`` and, with several parts, on ``batch_size``; on nothing else. Memory, residency,
    threads, ranks and device change none of it.

    Parameters
    ----------
    data
        A store, its folder or address, any Zarr (a path, an address, a ``zarr.Group`` or zarr ``Store``), a file of
        token ids (``train.bin``), or what :func:`outofcore.open_zarr` or :func:`outofcore.open_tokens` opened; or
        several that are read as one, shuffled together: ``["jan.zarr", "feb.zarr"]``. They need the same fields, parts
        and rows per chunk. No window crosses from one into the next. A mapping of names to stores, or to lists of
        them, is for :class:`outofcore.Mixture`: ``{"lichess": a, "twic": [b, c]}``.
    split
        Which split.
    batch_size
        Samples of a batch, over all ranks; with :class:`outofcore.Balanced` it follows from that.
    shuffle
        True: blocks, and rows inside a pool of blocks. False: the order of the store. Or a way of sampling with its
        settings: :class:`outofcore.Shuffle` (a mapping of its settings also does), :class:`outofcore.InOrder`,
        :class:`outofcore.Weighted`, :class:`outofcore.Balanced` or :class:`outofcore.Mixture`.
    seed
        Another seed, another order.
    tensors
        What turns rows into tensors, for all parts or by part, such as ``reading(store, lags=32)``. By default
        ``reading(store)``, or the stored fields where the store's domain has no ready tensors. Names of stored fields,
        such as ``("planes", "result")``, or ``"stored"`` for all of them. Random changes (mirror images, symmetries)
        are made in the split ``train`` only.
    columns
        Columns of the game, document or trial that each sample belongs to, such as ``("white_elo", "black_elo")``:
        (batch, ...) under their names, along with the tensors. ``"sequence"`` is its number in the split, over all
        stores. A window belongs to the sequence of its first row, one that reaches back to that of its last.
    where
        Only the rows of sequences whose columns meet a condition: ``"white_elo >= 2000 and eco in ('B20', 'B21')"``.
        Comparisons (also chained), ``in``, ``and``, ``or``, ``not`` and parentheses, as NumPy compares. Windows cross
        from one selected sequence into the next only if these follow each other in the store; those that reach back
        do so into any. Entries of :class:`outofcore.Balanced` with rows of others are left out.
    window
        Rows of a sample, :class:`outofcore.Window` or a mapping of its settings; None for what the tensors need, or
        else single rows.
    map
        A function of each batch, a dict of tensors, that returns the batch to deliver; called in the loader's threads,
        with this rank's samples, before they are sent to a device. It has to return the same for the same batch, and
        tensors with one entry per sample. It is no part of the order or of the state.
    part
        Which part of the store, such as a recording session; None for all. Several are read together, each batch from
        one of them, with its place in the store as ``part`` (batch,).
    memory
        All that the loader may hold, ``"256MiB"``; checked before an epoch is read.
    residency
        Where decoded rows are kept; ``"auto"`` chooses by the memory. The guide *Loading* describes the others.
    last
        A last batch that is not full is kept, dropped, or padded by samples seen before.
    skip
        Steps to leave out: ``[340, (1000, 1020)]`` are step 340, and steps 1000 to 1020, both included. Steps are
        batches, counted from 1 at the beginning of epoch 0 and on through the epochs, as training prints them. Those
        left out keep their numbers, the others their samples. A state records those before it that were left out.
    rank, world_size
        Which rank of how many; by default those of ``torch.distributed``, which must be initialised first if several
        processes were started, by ``torchrun``, ``accelerate``, ``mpirun`` or ``srun``. A batch that ranks do not
        divide gives some of them one sample more.
    device
        Where batches go; None leaves them in this machine's memory.
    threads
        Threads that decode chunks, and as many that make batches; by default one a core, 8 at most.

    Raises
    ------
    BudgetError
        If the memory is too little for what the order asks for.
    StoreError
        If there is no such store, split or field.
    ParamsError
        If a parameter cannot be met.
    """
    sampling, skipped = sampling_of(shuffle), Steps("skip", skip)
    one_of("last", last, get_args(Last))
    one_of("residency", residency, get_args(ResidencyName))
    budget, device_named = budget_bytes(memory), named_device(device)
    batch_size = sampling.samples_of_batch(whole("batch_size", batch_size, 1))
    batching = batching_of(batch_size, last, rank, world_size)
    seed = whole("seed", seed, 0, 2**64 - 1)
    threads = whole_or_none("threads", threads, 1, _MOST_ASKED) or min(usable_cores().value, _MOST_THREADS)
    of_sequences = () if columns == () else words("columns", columns)
    names = field_names(tensors)
    named = opened_sources(data, names and tuple(dict.fromkeys((*names, *sampling.columns))))
    stores, split = tuple(chain.from_iterable(named.values())), word("split", split)
    refuse_unknown("loader()", list(signature(loader).parameters)[:-1], unknown, [store.domain for store in stores])
    if isinstance(data, Mapping) != sampling.mixes_sources:
        refuse("data", "stores by name, {'a': ..., 'b': ...}, with shuffle=Mixture(weights), and only then", data)
    if sampling.mixes_sources and SOURCE in of_sequences:
        refuse("columns", f"no {SOURCE!r}, which is the number of a sample's source", columns)
    check_stores(stores)
    known = stores[0].parts
    parts = known if part is None else (part,) if isinstance(part, str) else words("part", part)
    if len(parts) > 1 and sampling.mixes_sources:
        refuse("part", "one part, where sources are mixed", list(parts))
    if len(parts) > 1 and "part" in of_sequences:
        raise ParamsError(
            "columns: 'part' is the place of a batch's part in the store where several are read; read one part"
        )

    opened_splits = [
        open_split(
            stores,
            split,
            name,
            tensors=tensors,
            columns=of_sequences,
            window=window,
            where=where,
            budget=budget,
            stores_of_sources={name: len(group) for name, group in named.items()} if sampling.mixes_sources else {},
            names_rows=sampling.names_rows,
            transform=None if map is None else Transform(map),
            place=known.index(name) if len(parts) > 1 else None,
        )
        for name in parts
    ]
    prove_tables(budget, opened_splits)
    pairs = [(opened, sampling.sampler(opened, seed)) for opened in opened_splits]
    for opened, sampler in pairs:
        if 0 < sampler.positions < batching.world:
            raise ParamsError(
                f"{opened.where}: {opened.path} has {sampler.positions} samples for {batching.world} ranks"
            )
    samples = [sample_bytes(opened) for opened in opened_splits]

    @cache  # the advice of a refusal asks for the same pools with many batch sizes
    def limits(pool_blocks: int | None) -> list[PoolLimits]:
        samplers = [sampler if pool_blocks is None else sampler.with_pool(pool_blocks) for _, sampler in pairs]
        return [sampler.limits(gcd(batching.world, sampler.lanes)) for sampler in samplers]

    def planned(
        pool_blocks: int | None = None, batch_size: int = batch_size
    ) -> tuple[list[ResidencyPlan], BatchBytes, int]:
        estimates = [
            measure(*part, batch_size, batching.world, threads, len(parts))
            for part in zip(opened_splits, limits(pool_blocks), samples, strict=True)
        ]
        return choose(residency, estimates, budget)

    try:
        plans, bytes_of_batches, room = planned()
    except BudgetError as error:
        sizes = batch_size if sampling.samples_of_batch(1) == 1 else 0  # else it follows from the sampling
        raise BudgetError(f"{error}{smaller(planned, sampling.pool_blocks, sizes, batching.world)}") from None
    for opened in opened_splits:
        opened.columns.read()
    for store in stores:
        store.digest  # noqa: B018 - for states: of data without a seal it reads chunks, while no others are held
    stream = DeviceStream(device_named)
    recyclers: Recyclers = defaultdict(Recycler)
    readers = [SplitReader(*pair, seed, plan, stream, recyclers) for pair, plan in zip(pairs, plans, strict=True)]
    return Loader(
        readers,
        StepOrder([sampler.positions for _, sampler in pairs], batching, sampling.turns, seed),
        memory=budget,
        threads=threads,
        flight=bytes_of_batches.within(room),
        skip=skipped,
    )


def sampling_of(shuffle: object) -> Sampling:
    """The way of sampling that ``shuffle`` names; raises ParamsError if it names none."""
    if isinstance(shuffle, bool):
        return Shuffle() if shuffle else InOrder()
    if isinstance(shuffle, Sampling):
        return shuffle
    if not isinstance(shuffle, Mapping):
        refuse("shuffle", "True, False, or a way of sampling such as outofcore.Shuffle(full=True)", shuffle)
    return instance("shuffle", shuffle, Shuffle) or Shuffle()
