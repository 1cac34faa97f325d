"""Batches of one store or several: shuffled, exact, resumable, in a stated budget of memory."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Never, get_args

import numpy as np
import torch

from outofcore.checks import instance, one_of, refuse, whole, whole_or_none, word, words
from outofcore.domains.reading import Reading
from outofcore.errors import BudgetError, ParamsError
from outofcore.loading.arguments import budget_bytes, named_device, opened_sources, refuse_unknown
from outofcore.loading.batch_memory import Recyclers, SampleBytes
from outofcore.loading.epoch import SplitReader
from outofcore.loading.iteration import Loader
from outofcore.loading.memory import (
    MemoryEstimate,
    blank_bytes,
    first_bytes,
    measure,
    prove_tables,
    read_together,
    stored_bytes,
)
from outofcore.loading.ranks import batching_of
from outofcore.loading.residency import ResidencyPlan, choose, in_flight
from outofcore.loading.row_weights import weights_of_rows
from outofcore.loading.sequences import SOURCE
from outofcore.loading.split import Split, open_split, reading, windows_of
from outofcore.loading.transform import Transform
from outofcore.order.balanced import Balanced, BalancedSampler
from outofcore.order.batching import Batching, Last, Turns
from outofcore.order.mixture import MixtureSampler, Source, Stop, weigh
from outofcore.order.plain import LANES, PlainSampler, Shuffle
from outofcore.order.sampling import Sampler
from outofcore.order.steps import Steps
from outofcore.order.weighted import Weighted, WeightedSampler
from outofcore.order.windows import Window, Windows
from outofcore.settings.hardware import usable_cores
from outofcore.settings.residencies import ResidencyName
from outofcore.settings.sizes import format_bytes
from outofcore.store.joined import check_stores, splits_lines
from outofcore.store.reader import Store
from outofcore.system.device import DeviceStream
from outofcore.system.recycling import Recycler

_MOST_THREADS = 8  # a training step rarely consumes more than so many cores can make
_MOST_ASKED = 1024
MOST_LANES = 4096


def loader(
    store: Store | str | Path | Sequence[Store | str | Path] | Mapping[str, Any],
    split: str = "train",
    batch_size: int = 1024,
    *,
    shuffle: Shuffle = True,
    seed: int = 0,
    memory: str | int = "256MiB",
    residency: ResidencyName = "auto",
    tensors: Reading | Mapping[str, Reading] | Literal["stored"] | None = None,
    seq_len: int | None = None,
    fields: tuple[str, ...] | None = None,
    columns: tuple[str, ...] = (),
    window: Window | Mapping[str, Any] | None = None,
    phase: bool | None = None,
    pool_blocks: int = 64,
    block_rows: int | None = None,
    lanes: int = LANES,
    weighted: Weighted | Mapping[str, Any] | None = None,
    balanced: Balanced | Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    stop: Stop = "first",
    where: str | None = None,
    map: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]] | None = None,  # noqa: A002  # the usual name
    part: str | Sequence[str] | None = None,
    turns: Turns = "size",
    rank: int | None = None,
    world_size: int | None = None,
    last: Last = "keep",
    skip: Sequence[int | Sequence[int]] = (),
    device: str | torch.device | None = None,
    threads: int | None = None,
    axis: int | str = 0,
    rows: tuple[int, int] | None = None,
    splits: Mapping[str, float] | None = None,
    strict: bool = False,
    packed: bool = False,
    dtype: str | None = None,
    end_of_document: int | None = None,
    vocab_size: int | None = None,
    **unknown: Never,
) -> Loader:
    """Batches of a split.

    The order of samples depends on the stores in the given order, ``split``, ``part``, ``seed``, the epoch,
    ``shuffle``, ``window``, ``phase``, ``pool_blocks``, ``block_rows``, ``lanes``, ``weighted``, ``balanced``,
    ``weights``, ``stop``, ``where`` and, with several parts, on ``turns`` and ``batch_size``; on nothing else. Memory,
    residency, threads, ranks and device change none of it.

    Parameters
    ----------
    store
        A store, its folder or address, any Zarr (a path, an address, a ``zarr.Group`` or zarr ``Store``), or a file of
        token ids (``train.bin``); or several that are read as one, shuffled together: ``["jan.zarr", "feb.zarr"]``.
        They need the same fields, parts and rows per chunk. No window crosses from one into the next. A mapping of
        names to stores, or to lists of them, mixes sources by ``weights``: ``{"lichess": a, "twic": [b, c]}``.
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
        Where decoded rows are kept; ``"auto"`` chooses by the memory. The guide *Loading* describes the others.
    tensors
        What turns rows into tensors, for all parts or by part, such as ``reading(store, lags=32)``. By default
        ``reading(store)``, or the stored fields where the store's domain has no ready tensors. ``"stored"``: the stored
        fields. Random changes (mirror images, symmetries) are made in the split ``train`` only.
    seq_len
        Tokens of a sample of text; short for ``tensors=reading(store, seq_len=...)``.
    fields
        The stored fields to read, instead of tensors.
    columns
        Columns of the game, document or trial that each sample belongs to, such as ``("white_elo", "black_elo")``:
        (batch, ...) under their names, along with the tensors. ``"sequence"`` is its number in the split, over all
        stores. A window belongs to the sequence of its first row, one that reaches back to that of its last.
    window
        Rows of a sample; None for what the tensors need, or else single rows.
    phase
        Whether windows start elsewhere each epoch; None for what the tensors' settings say, in the split ``train``.
    pool_blocks
        Blocks in memory at a time: how well batches mix.
    block_rows
        Rows of a block, rounded down to whole chunks; None for one chunk, or four with windows or ``where``.
    lanes
        Slices of a pool that are dealt to ranks. Ranks whose number does not divide it get the same batches, but
        several of them read the same chunks: 3 ranks three times as many in all. A multiple of the ranks avoids it.
    weighted
        Draw samples by weight.
    balanced
        Draw batches of groups; takes the place of ``shuffle`` and ``lanes``.
    weights
        Shares of the samples by source of a mixture, such as ``{"lichess": 0.7, "twic": 0.3}``, in 65,536ths. Each
        batch then has the number of each sample's source as ``source`` (batch,).
    stop
        Where an epoch of a mixture ends: ``"first"``, before a source would repeat; ``"all"``, once every source was
        read whole, others having been repeated.
    where
        Only the rows of sequences whose columns meet a condition: ``"white_elo >= 2000 and eco in ('B20', 'B21')"``.
        Comparisons (also chained), ``in``, ``and``, ``or``, ``not`` and parentheses, as NumPy compares. Windows cross
        from one selected sequence into the next only if these follow each other in the store; those that reach back
        do so into any. Entries of ``balanced`` with rows of others are left out.
    map
        A function of each batch, a dict of tensors, that returns the batch to deliver; called in the loader's threads,
        with this rank's samples, before they are sent to a device. It has to return the same for the same batch, and
        tensors with one entry per sample. It is no part of the order or of the state.
    part
        Which part of the store, such as a recording session; None for all. Several are read together, each batch from
        one of them, with its place in the store as ``part`` (batch,).
    turns
        With several parts: batches at random in proportion to ``"size"``, or one of each in ``"turn"``.
    rank, world_size
        Which rank of how many; by default those of ``torch.distributed``, which must be initialised first if several
        processes were started, by ``torchrun``, ``accelerate``, ``mpirun`` or ``srun``. A batch that ranks do not
        divide gives some of them one sample more.
    last
        A last batch that is not full is kept, dropped, or padded by samples seen before.
    skip
        Steps to leave out: ``[340, (1000, 1020)]`` are step 340, and steps 1000 to 1020, both included. Steps are
        batches, counted from 1 at the beginning of epoch 0 and on through the epochs, as training prints them. Those
        left out keep their numbers, the others their samples. A state records those before it that were left out.
    device
        Where batches go; None leaves them in this machine's memory.
    threads
        Threads that decode chunks, and as many that make batches; by default one a core, 8 at most.
    axis, strict, packed
        Of a Zarr that outofcore did not write: which axis is that of the samples, whether missing chunks are refused,
        and whether packed numbers stay as stored, as :func:`outofcore.open_zarr` describes.
    dtype, end_of_document, vocab_size
        Of a file of token ids that outofcore did not write, such as ``train.bin``, as :func:`outofcore.open_tokens`
        describes.
    rows, splits
        Of either: which rows are read, and as which splits.

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
        raise ParamsError("give weighted or balanced, not both: each draws the samples in its own way")
    skipped = Steps("skip", skip)
    one_of("last", last, get_args(Last))
    one_of("turns", turns, get_args(Turns))
    one_of("stop", stop, get_args(Stop))
    one_of("residency", residency, get_args(ResidencyName))
    if not isinstance(shuffle, bool) and not (isinstance(shuffle, str) and shuffle in ("blocks", "full")):
        refuse("shuffle", 'True, False, "blocks" or "full"', shuffle)
    budget, device_named = budget_bytes(memory), named_device(device)
    groups, drawn = instance("balanced", balanced, Balanced), instance("weighted", weighted, Weighted)
    batch_size = groups.size if groups is not None else whole("batch_size", batch_size, 1)
    batching = batching_of(batch_size, last, rank, world_size)
    seed, lanes = whole("seed", seed, 0, 2**64 - 1), whole("lanes", lanes, 1, MOST_LANES)
    pool_blocks, block_rows = whole("pool_blocks", pool_blocks, 1), whole_or_none("block_rows", block_rows, 1)
    threads = whole_or_none("threads", threads, 1, _MOST_ASKED) or min(usable_cores().value, _MOST_THREADS)
    names = None if fields is None else words("fields", fields)
    of_sequences = () if columns == () else words("columns", columns)
    wanted = names if names is None or drawn is None else tuple(dict.fromkeys((*names, drawn.column)))
    named = opened_sources(
        store,
        fields=wanted,
        axis=axis,
        rows=rows,
        splits=splits,
        strict=strict,
        packed=packed,
        dtype=dtype,
        end_of_document=end_of_document,
        vocab_size=vocab_size,
    )
    stores, split = tuple(chain.from_iterable(named.values())), word("split", split)
    refuse_unknown("loader()", list(signature(loader).parameters), unknown, [store.domain for store in stores])
    if seq_len is not None:
        if tensors is not None:
            refuse("seq_len", "nothing next to tensors, which it is short for", seq_len)
        tensors = reading(stores[0], seq_len=seq_len)
    sources = None
    if isinstance(store, Mapping):
        sources = weigh(weights, {name: len(own) for name, own in named.items()})
        _check_mixture(shuffle, weighted, balanced, of_sequences)
    elif weights is not None or stop != "first":
        raise ParamsError('weights and stop="all" are for a mixture: give the stores by name, {"a": ..., "b": ...}')
    check_stores(stores)
    known = stores[0].parts
    parts = known if part is None else (part,) if isinstance(part, str) else words("part", part)
    if len(parts) > 1 and sources is not None:
        refuse("part", "one part, where sources are mixed", list(parts))
    if len(parts) > 1 and "part" in of_sequences:
        raise ParamsError(
            "columns: 'part' is the place of a batch's part in the store where several are read; read one part"
        )

    opened_splits = [
        replace(
            open_split(
                stores,
                split,
                name,
                tensors=tensors,
                fields=names,
                columns=of_sequences,
                window=window,
                phase=phase,
                where=where,
                budget=budget,
                sources=[source.stores for source in sources or ()],
                drawn=groups is not None,
            ),
            transform=None if map is None else Transform(map),
            place=known.index(name) if len(parts) > 1 else None,
        )
        for name in parts
    ]
    prove_tables(budget, opened_splits)
    samplers = [
        _sampler(opened, seed, shuffle, pool_blocks, block_rows, lanes, drawn, groups)
        if sources is None
        else _mixture(opened, sources, stop, seed, pool_blocks, block_rows, lanes)
        for opened in opened_splits
    ]
    pairs = list(zip(opened_splits, samplers, strict=True))
    for opened, sampler in pairs:
        if 0 < sampler.positions < batching.world:
            raise ParamsError(
                f"{opened.where}: {opened.path} has {sampler.positions} samples for {batching.world} ranks"
            )
    mixing = [_mixing(opened, sampler, batch_size) for opened, sampler in pairs]

    def planned(samples: Sequence[SampleBytes]) -> tuple[list[MemoryEstimate], list[ResidencyPlan]]:
        needs = read_together(
            [
                measure(*pair, sample, batch_size, pool_blocks, batching.world, threads)
                for pair, sample in zip(pairs, samples, strict=True)
            ]
        )
        return needs, choose(residency, needs, budget)

    whole_batches = [stored_bytes(opened) for opened in opened_splits]
    if any(sample.rows and not sample.tensors for sample in whole_batches):
        try:
            planned(whole_batches)
        except BudgetError:  # nothing is read; the tensors are those of rows that are 0
            planned([blank_bytes(opened).in_slabs for opened in opened_splits])
            raise
        whole_batches = [first_bytes(opened) for opened in opened_splits]
    samples = [sample.in_slabs for sample in whole_batches]
    needs, plans = planned(samples)
    if samples != whole_batches:
        with suppress(BudgetError):  # there is no room for whole batches
            more, others = planned(whole_batches)
            if [plan.kind for plan in others] == [plan.kind for plan in plans]:
                samples, needs, plans = whole_batches, more, others
    for opened in opened_splits:
        opened.columns.read()
    for store in stores:
        store.digest  # noqa: B018 - for states: of data without a seal it reads chunks, while no others are held
    flight = in_flight(needs, plans, budget)
    uneven = lanes % batching.world and shuffle in (True, "blocks") and groups is None and sources is None
    stream = DeviceStream(device_named)
    recyclers: Recyclers = defaultdict(Recycler)
    readers = [
        SplitReader(*pair, seed, plan, stream, recyclers, sample.slab)
        for pair, plan, sample in zip(pairs, plans, samples, strict=True)
    ]
    return Loader(
        readers,
        batching,
        turns=turns,
        seed=seed,
        stream=stream,
        threads=threads,
        flight=flight,
        skip=skipped,
        notes=[
            *_notes(
                readers, mixing, batching, f"memory {format_bytes(budget)}, {threads} thread{'s' * (threads != 1)}"
            ),
            *([_lanes_note(batching.world, lanes)] if uneven else []),
            *splits_lines(stores),
            *filter(None, (store.note(split, list(opened_splits[0].rows.fields)) for store in stores)),
        ],
    )


def _sampler(
    split: Split,
    seed: int,
    shuffle: Shuffle,
    pool_blocks: int,
    block_rows: int | None,
    lanes: int,
    weighted: Weighted | None,
    balanced: Balanced | None,
) -> Sampler:
    if balanced is not None:
        runs = split.sequences.selected_runs() if split.selects else None
        return BalancedSampler(balanced, split.windows, seed, split.rows.chunk_rows, runs)
    plain = PlainSampler(
        split.windows,
        split.rows.chunk_rows,
        seed,
        shuffle=shuffle,
        pool_blocks=pool_blocks,
        block_rows=block_rows,
        lanes=lanes,
    )
    return plain if weighted is None else WeightedSampler(plain, weighted, *weights_of_rows(split, weighted.column))


def _mixture(
    split: Split,
    sources: Sequence[Source],
    stop: Stop,
    seed: int,
    pool_blocks: int,
    block_rows: int | None,
    lanes: int,
) -> MixtureSampler:
    edges = np.cumsum([0, *(source.stores for source in sources)]).tolist()
    windows, chunks = list[Windows](), list[int]()
    for stores in map(slice, edges, edges[1:]):
        rows, window = split.rows.of(stores), split.windows
        sequences = split.sequences.of(stores)
        windows.append(windows_of([rows], sequences, window.window, phase=window.phase, selects=window.selects))
        chunks.append(len(windows[-1].chunks(rows.chunk_rows)) if window.selects else rows.chunks)
    layout: Any = {"pool_blocks": pool_blocks, "block_rows": block_rows, "lanes": lanes}
    return MixtureSampler(split.windows, sources, windows, chunks, split.rows.chunk_rows, stop, seed, **layout)


def _mixing(split: Split, sampler: Sampler, batch_size: int) -> str:
    """What batches are made of, or why there are none."""
    if not sampler.positions:
        why = f"no sequence has the {split.windows.length:,} rows of a window; ask for shorter ones (lags=, seq_len=)"
        if not split.windows.rows:
            why = "the split has no rows"
        elif not split.sequences.selected:
            why = f"no sequence of {split.path} is one where {split.selects}"
        return f"no samples, so no batches: {why}"
    return sampler.mixing(batch_size, split.sequences.selected)


def _lanes_note(world: int, lanes: int) -> str:
    """What a number of ranks costs that does not divide the lanes."""
    return (
        f"{world} ranks do not divide {lanes} lanes: a chunk is read by up to {world // math.gcd(world, lanes)} ranks; "
        f"lanes={world} (another order) would have each read by one"
    )


def _check_mixture(shuffle: Shuffle, weighted: object, balanced: object, columns: Sequence[str]) -> None:
    """Raise ParamsError for what a mixture cannot be asked for."""
    for name, value in (("weighted", weighted), ("balanced", balanced)):
        if value is not None:
            refuse(name, "nothing, where sources are mixed by weights", value)
    if shuffle not in (True, "blocks"):
        refuse("shuffle", "True, where sources are mixed by weights", shuffle)
    if SOURCE in columns:
        refuse("columns", f"no {SOURCE!r}, which is the number of a sample's source", columns)


def _selected_line(split: Split) -> str:
    """How much an expression selects, and what reading it costs."""
    line = f"{split.sequences.selected:,} of {len(split.sequences):,} sequences are those where {split.selects}"
    if split.used is None or not split.windows.samples:
        return line
    rows = len(split.used) * split.rows.chunk_rows / split.windows.samples
    return f"{line}; an epoch decodes {rows:,.1f} rows for each sample, or a little more where rows are streamed"


def _notes(readers: Sequence[SplitReader], mixing: Sequence[str], batching: Batching, limits: str) -> list[str]:
    """Lines for the user: where rows are, how the batches of a single part mix, what happens to the last samples."""
    first = readers[0]
    path = first.split.path if len(readers) == 1 else f"{len(readers)} parts"
    notes = []
    if len(first.split.stores) > 1:
        rows = sum(reader.split.windows.rows for reader in readers)
        notes.append(f"{path}: {len(first.split.stores)} stores, {rows:,} rows")
    if len(readers) == 1:
        notes += [f"{path}: residency {first.plan.kind}: {first.plan.reason} ({limits})", f"{path}: {mixing[0]}"]
    else:
        kinds = Counter(reader.plan.kind for reader in readers)
        notes.append(f"{path}: residency {', '.join(f'{kind} of {count}' for kind, count in kinds.items())} ({limits})")
    for reader, line in zip(readers, mixing, strict=True):
        if len(readers) > 1 and not reader.sampler.positions:
            notes.append(f"{reader.split.path}: {line}")
        if reader.split.windows.packs is not None:
            notes.append(f"{reader.split.path}: {reader.split.windows.packs.report()}")
        if reader.split.selects and reader.split.sequences.selected:
            notes.append(f"{reader.split.path}: {_selected_line(reader.split)}")
        notes += [f"{reader.split.path}: {line}" for line in reader.sampler.report()]
    rests, full = (
        [reader.sampler.positions % batching.size for reader in readers],
        f"so that all batches hold {batching.size:,}",
    )
    if any(rests) and batching.last == "drop":
        notes.append(f"{path}: {sum(rests):,} samples are dropped each epoch, {full}")
    if any(rests) and batching.last == "pad":
        twice = sum(batching.size - rest for rest in rests if rest)
        notes.append(f"{path}: {twice:,} samples come twice each epoch, {full}")
    return notes
