"""Which way of keeping a set of recordings suits a machine: pure arithmetic on sizes and on what the machine has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from outofcore.domains.neural.dtypes import StimulusType
from outofcore.sizes import format_bytes
from outofcore.store.schema import CodecName, Schema

PIXEL_BYTES: dict[StimulusType, int] = {"uint8": 1, "bfloat16": 2, "float16": 2, "float32": 4}

# The rest of the memory is the model's, the system's and the page cache's.
MEMORY_SHARE = 0.9
# Below this share of the bins in memory, a hybrid reads as much from the disk as streaming does.
WORTH_HOLDING = 0.05

WayName = Literal["ram", "streamed", "transforms at read", "mapped", "hybrid"]


@dataclass(frozen=True)
class SessionSize:
    """Size of a session, from its shapes alone.

    Attributes
    ----------
    name
        Its part of the store.
    bins
        Bins, that is rows.
    pixels
        Pixels of a stored frame.
    other_bytes
        Bytes of a row beside its frame: responses, mask, behaviour.
    """

    name: str
    bins: int
    pixels: int
    other_bytes: int

    def row_bytes(self, dtype: StimulusType) -> int:
        """Decoded bytes of a bin with pixels of a type."""
        return self.pixels * PIXEL_BYTES[dtype] + self.other_bytes

    def bytes(self, dtype: StimulusType) -> int:
        """Decoded bytes with pixels of a type."""
        return self.bins * self.row_bytes(dtype)


@dataclass(frozen=True)
class MachineFacts:
    """What a machine has.

    Attributes
    ----------
    memory
        Bytes of memory that may be used.
    disk
        Bytes free for stores where they will stand.
    margin
        Share that is added to what a disk must hold.
    copies
        Times that a store stands on that disk once DVC has committed it: 2 where its cache copies, else 1.
    """

    memory: int
    disk: int
    margin: float = 0.2
    copies: int = 1

    @property
    def usable_memory(self) -> int:
        """Bytes for data."""
        return int(self.memory * MEMORY_SHARE)


@dataclass(frozen=True)
class Compressed:
    """What a codec makes of a sample of the frames, measured.

    Attributes
    ----------
    dtype, codec
        Stored type of a pixel, and the codec.
    share
        Encoded bytes for each decoded one.
    decoded_per_second
        Bytes that one thread decodes in a second.
    """

    dtype: StimulusType
    codec: CodecName
    share: float
    decoded_per_second: int


@dataclass(frozen=True)
class Reads:
    """What training reads, and what its loaders hold at least.

    Attributes
    ----------
    train, val
        Shares of the bins in the two splits that a training run reads.
    pools
        Bytes of the pools of blocks of both loaders, with pixels of one byte.
    batches
        Bytes of the batches in flight, with pixels of one byte.
    """

    train: float
    val: float
    pools: int
    batches: int


@dataclass(frozen=True)
class Way:
    """A way of keeping the data, and whether this machine can.

    Attributes
    ----------
    name
        What it is.
    dtype, codec
        Type of a pixel and codec of the store.
    settings
        The settings that choose it, where they stand.
    memory
        Bytes that the loaders hold.
    store
        Bytes of the store.
    disk
        Bytes that must be free for it: with DVC's copy and the margin.
    decoded_per_second
        Bytes that one thread decodes in a second, measured on a sample; None where nothing is decoded while training.
    missing
        What this machine lacks for it, a line each; empty where it fits.
    """

    name: WayName
    dtype: StimulusType
    codec: CodecName
    settings: str
    memory: int
    store: int
    disk: int
    decoded_per_second: int | None
    missing: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether this machine can."""
        return not self.missing


def sizes_of(schemas: Mapping[str, Schema]) -> tuple[SessionSize, ...]:
    """Sizes of sessions, exact but for bins that will be rejected, from their schemas: no frame is read."""
    sizes = []
    for name, schema in schemas.items():
        stim = next(field for field in schema.rows if field.name == "stim")
        others = sum(field.row_bytes for field in schema.rows) - stim.row_bytes
        pixels = int(np.prod(stim.shape, dtype=np.int64))
        sizes.append(SessionSize(name, int(schema.attributes["bins_in_trials"]), pixels, others))
    return tuple(sizes)


def total_bytes(sessions: Sequence[SessionSize], dtype: StimulusType) -> int:
    """Decoded bytes of all sessions with pixels of a type."""
    return sum(session.bytes(dtype) for session in sessions)


def ways(
    sessions: Sequence[SessionSize],
    machine: MachineFacts,
    reads: Reads,
    compressed: Sequence[Compressed] = (),
    dtypes: Sequence[StimulusType] = ("uint8", "bfloat16", "float32"),
) -> tuple[Way, ...]:
    """The five ways, in the order in which to prefer those that fit.

    Parameters
    ----------
    sessions
        What there is to keep.
    machine
        What there is to keep it in.
    reads
        What training reads of it.
    compressed
        What codecs make of a sample; a codec that nobody has measured is not offered.
    dtypes
        Types that can hold the pixels, the narrowest first. All ways are given for that one, the wide ones that people
        think of beside it.
    """
    return tuple(_fitted(way, machine) for way in _ways(sessions, machine, reads, compressed, dtypes))


def _ways(
    sessions: Sequence[SessionSize],
    machine: MachineFacts,
    reads: Reads,
    compressed: Sequence[Compressed],
    dtypes: Sequence[StimulusType],
) -> Iterator[Way]:
    def way(name: WayName, dtype: StimulusType, codec: Compressed | None, memory: float, budget: float) -> Way:
        total = total_bytes(sessions, dtype)
        store = math.ceil(total * (codec.share if codec else 1))
        named: CodecName = codec.codec if codec else "none"
        residency = "streamed" if name == "transforms at read" else name
        settings = f"residency {residency}, memory {format_bytes(math.ceil(budget))} (machine.yaml)"
        settings += f"; source.stimulus_dtype {dtype}, store.codec {named}"
        settings += ", tensors.transforms and tensors.cast (params.yaml)" if residency != name else " (params.yaml)"
        speed = codec.decoded_per_second if codec and name in ("streamed", "transforms at read", "hybrid") else None
        disk = math.ceil(store * machine.copies * (1 + machine.margin))
        return Way(name, dtype, named, settings, math.ceil(memory), store, disk, speed, ())

    def smallest(dtype: StimulusType) -> Compressed | None:
        return min((each for each in compressed if each.dtype == dtype), key=lambda each: each.share, default=None)

    def in_memory(dtype: StimulusType) -> Way:
        total, batches = total_bytes(sessions, dtype), reads.batches * PIXEL_BYTES[dtype]
        # The two loaders share the budget evenly, and the train split is the larger one.
        budget = 2 * total * max(reads.train, reads.val) + batches
        return way("ram", dtype, smallest(dtype), total * (reads.train + reads.val) + batches, budget)

    def mapped(dtype: StimulusType) -> Way:
        held = reads.batches * PIXEL_BYTES[dtype]
        return way("mapped", dtype, None, held, held + reads.pools * PIXEL_BYTES[dtype])

    narrow = dtypes[0]
    least = (reads.pools + reads.batches) * PIXEL_BYTES[narrow]
    yield in_memory(narrow)
    best = smallest(narrow)
    for codec in compressed:
        if codec.dtype == narrow:
            yield way("streamed", narrow, codec, least, least)
    yield way("transforms at read", narrow, best, least, least)
    yield mapped(narrow)
    loaded = total_bytes(sessions, narrow) * (reads.train + reads.val)
    held = max(0, min(machine.usable_memory - least, loaded))
    if held >= WORTH_HOLDING * loaded:
        yield way("hybrid", narrow, best, least + held, least + held)
    for dtype in dtypes[1:]:
        yield in_memory(dtype)
        yield mapped(dtype)


def _fitted(way: Way, machine: MachineFacts) -> Way:
    """The way with what the machine lacks for it."""
    asked = ((way.memory, machine.usable_memory, "memory", "usable"), (way.disk, machine.disk, "disk", "free"))
    missing = tuple(
        f"needs {format_bytes(need)} of {what}, {format_bytes(have)} {state}"
        for need, have, what, state in asked
        if need > have
    )
    return replace(way, missing=missing)


def advice(found: Sequence[Way]) -> str:
    """One line: the first way that fits, or the one that lacks least."""
    fitting = next((way for way in found if way.fits), None)
    if fitting is not None:
        return f"{fitting.name} with {fitting.dtype}, codec {fitting.codec}: {fitting.settings}"
    least = min(found, key=lambda way: (way.disk, way.memory))
    lacks = "; ".join(least.missing)
    return f"no way fits; the smallest is {least.name} with {least.dtype}, codec {least.codec}: {lacks}"
