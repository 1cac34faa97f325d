"""Rank ways to keep recordings on a machine, from their sizes and the machine's memory and disk."""

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

# The rest of the memory is for the model, the system and the page cache.
MEMORY_SHARE = 0.9
# Below this share of the bins in memory, a hybrid reads as much from the disk as streaming does.
WORTH_HOLDING = 0.05

WayName = Literal["ram", "streamed", "transforms at read", "mapped", "hybrid"]


@dataclass(frozen=True)
class SessionSize:
    """Size of a session, from its shapes alone."""

    name: str  # part of the store
    bins: int
    pixels: int  # per stored frame
    other_bytes: int  # per row without its frame: responses, mask, behaviour

    def row_bytes(self, dtype: StimulusType) -> int:
        """Decoded bytes per bin with pixels of this type."""
        return self.pixels * PIXEL_BYTES[dtype] + self.other_bytes

    def bytes(self, dtype: StimulusType) -> int:
        """Decoded bytes with pixels of this type."""
        return self.bins * self.row_bytes(dtype)


@dataclass(frozen=True)
class MachineFacts:
    """Capacity of a machine."""

    memory: int  # usable bytes
    disk: int  # free bytes where stores are written
    margin: float = 0.2  # share added to the disk requirement
    copies: int = 1  # of a store on that disk after a DVC commit: 2 if DVC's cache copies, else 1

    @property
    def usable_memory(self) -> int:
        """Bytes for data."""
        return int(self.memory * MEMORY_SHARE)


@dataclass(frozen=True)
class Compressed:
    """Measured effect of a codec on a sample of the frames."""

    dtype: StimulusType
    codec: CodecName
    share: float  # encoded bytes per decoded byte
    decoded_per_second: int  # bytes per second and thread


@dataclass(frozen=True)
class Reads:
    """What training reads, and the least that its loaders hold."""

    train: float  # share of the bins
    val: float  # share of the bins
    pools: int  # bytes of both loaders' block pools, at one byte per pixel
    batches: int  # bytes of the batches in flight, at one byte per pixel


@dataclass(frozen=True)
class Way:
    """A way to keep the data, and whether it fits this machine."""

    name: WayName
    dtype: StimulusType
    codec: CodecName
    settings: str  # that select it, with their place in params.yaml
    memory: int  # bytes held by the loaders
    store: int  # bytes
    disk: int  # bytes that must be free, including DVC's copy and the margin
    decoded_per_second: int | None  # bytes per second and thread; None if training decodes nothing
    missing: tuple[str, ...]  # one line per shortage; empty if it fits

    @property
    def fits(self) -> bool:
        """Whether the machine has the memory and disk."""
        return not self.missing


def sizes_of(schemas: Mapping[str, Schema]) -> tuple[SessionSize, ...]:
    """Session sizes from their schemas, without reading a frame; bins rejected later still count."""
    sizes = []
    for name, schema in schemas.items():
        stim = next(field for field in schema.rows if field.name == "stim")
        others = sum(field.row_bytes for field in schema.rows) - stim.row_bytes
        pixels = int(np.prod(stim.shape, dtype=np.int64))
        sizes.append(SessionSize(name, int(schema.attributes["bins_in_trials"]), pixels, others))
    return tuple(sizes)


def total_bytes(sessions: Sequence[SessionSize], dtype: StimulusType) -> int:
    """Decoded bytes of all sessions with pixels of this type."""
    return sum(session.bytes(dtype) for session in sessions)


def ways(
    sessions: Sequence[SessionSize],
    machine: MachineFacts,
    reads: Reads,
    compressed: Sequence[Compressed] = (),
    dtypes: Sequence[StimulusType] = ("uint8", "bfloat16", "float32"),
) -> tuple[Way, ...]:
    """The five ways, in order of preference among those that fit.

    Codecs without a measurement are not offered. ``dtypes`` can hold the pixels, narrowest first; all ways use the
    narrowest, the wider ones are listed for comparison.
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
    """The way, completed with what the machine lacks for it."""
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
