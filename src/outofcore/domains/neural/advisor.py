"""Which way of keeping a set of recordings suits a machine: pure arithmetic on sizes and on what the machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from outofcore.sizes import format_bytes
from outofcore.store.schema import Schema

PIXEL_BYTES = {"uint8": 1, "bfloat16": 2, "float16": 2, "float32": 4}

# The rest of the memory is the model's, the system's and the page cache's.
MEMORY_SHARE = 0.9
# Above this share of the sessions in memory, a hybrid reads little from the disk.
WORTH_HOLDING = 0.05

WayName = Literal["ram", "mapped", "hybrid", "streamed", "transforms at read"]


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

    def bytes(self, dtype: str) -> int:
        """Decoded bytes with pixels of a type."""
        return self.bins * (self.pixels * PIXEL_BYTES[dtype] + self.other_bytes)


@dataclass(frozen=True)
class MachineFacts:
    """What a machine has.

    Attributes
    ----------
    memory
        Bytes of memory that may be used.
    disk
        Bytes free where the store will stand.
    margin
        Share that is added to what a disk must hold.
    reserve
        Bytes of the disk that stay free.
    """

    memory: int
    disk: int
    margin: float = 0.2
    reserve: int = 0


@dataclass(frozen=True)
class Way:
    """A way of keeping the data, and whether this machine can.

    Attributes
    ----------
    name
        What it is.
    dtype
        Type of a pixel where it is kept: in the store, or for ``ram`` in memory.
    settings
        The settings that choose it.
    memory, disk
        Bytes that it takes; the disk with margin.
    fits
        Whether this machine has them.
    reason
        One line with the figures.
    """

    name: WayName
    dtype: str
    settings: str
    memory: int
    disk: int
    fits: bool
    reason: str


def sizes_of(schemas: Mapping[str, Schema]) -> tuple[SessionSize, ...]:
    """Sizes of sessions, exact but for bins that will be rejected, from their schemas: no frame is read."""
    sizes = []
    for name, schema in schemas.items():
        stim = next(field for field in schema.rows if field.name == "stim")
        others = sum(field.row_bytes for field in schema.rows) - stim.row_bytes
        pixels = int(np.prod(stim.shape, dtype=np.int64))
        sizes.append(SessionSize(name, int(schema.attributes["bins_in_trials"]), pixels, others))
    return tuple(sizes)


def total_bytes(sessions: Sequence[SessionSize], dtype: str) -> int:
    """Decoded bytes of all sessions with pixels of a type."""
    return sum(session.bytes(dtype) for session in sessions)


def ways(
    sessions: Sequence[SessionSize], machine: MachineFacts, *, pool: int, compressed: float | None = None
) -> tuple[Way, ...]:
    """The five ways, and for whole copies each type of pixel, in the order in which to prefer those that fit.

    Parameters
    ----------
    sessions
        What there is to keep.
    machine
        What there is to keep it in.
    pool
        Bytes that a loader holds when it streams: two pools of blocks and the batches in flight.
    compressed
        Share of the decoded size that a compressed store takes, measured on a sample; None where nobody has measured.
    """
    usable = int(machine.memory * MEMORY_SHARE)
    room = machine.disk - machine.reserve
    found: list[Way] = []

    def add(name: WayName, dtype: str, settings: str, memory: int, disk: float, why: str) -> None:
        asked = int(np.ceil(disk * (1 + machine.margin)))
        short = [
            f"needs {format_bytes(need)} of {what}, {format_bytes(have)} {state}"
            for need, have, what, state in ((memory, usable, "memory", "usable"), (asked, room, "disk", "free"))
            if need > have
        ]
        fits = not short
        figures = f"{format_bytes(memory)} of {format_bytes(usable)} memory, "
        figures += f"{format_bytes(asked)} of {format_bytes(room)} disk"
        found.append(Way(name, dtype, settings, memory, asked, fits, f"{why}: {figures}" if fits else "; ".join(short)))

    narrow = total_bytes(sessions, "uint8")
    add(
        "ram",
        "uint8",
        "residency: ram, stimulus_dtype: uint8",
        narrow + pool,
        narrow,
        "read once, gathered from memory",
    )
    if compressed is not None:
        share = compressed
        add(
            "streamed",
            "uint8",
            "residency: streamed, stimulus_dtype: uint8, codec: lz4 or zstd",
            pool,
            narrow * share,
            f"compressed to {share:.0%}, decoded beside the training step",
        )
    add(
        "mapped",
        "uint8",
        "residency: mapped, stimulus_dtype: uint8, codec: none",
        pool,
        narrow,
        "the system caches what fits",
    )
    held = max(0, min(usable - pool, narrow))
    if held >= WORTH_HOLDING * narrow:
        why = f"{held / narrow:.0%} held in memory, the rest from disk"
        add("hybrid", "uint8", "residency: hybrid, stimulus_dtype: uint8", pool + held, narrow, why)
    add(
        "transforms at read",
        "uint8",
        "tensors.transforms and tensors.cast, stimulus_dtype: uint8",
        pool,
        narrow,
        "frames stay narrow; crop, downsample and cast run on each batch",
    )
    for dtype in ("bfloat16", "float32"):
        wide = total_bytes(sessions, dtype)
        add("ram", dtype, f"residency: ram, stimulus_dtype: {dtype}", wide + pool, wide, "no cast in the training step")
        add(
            "mapped",
            dtype,
            f"residency: mapped, stimulus_dtype: {dtype}, codec: none",
            pool,
            wide,
            "no cast in the step",
        )
    return tuple(found)


def advice(found: Sequence[Way]) -> str:
    """One line: the first way that fits, or what is missing least."""
    fitting = [way for way in found if way.fits]
    if fitting:
        return f"{fitting[0].name} with {fitting[0].dtype} ({fitting[0].settings}): {fitting[0].reason}"
    least = min(found, key=lambda way: (way.disk, way.memory))
    return f"no way fits; the smallest is {least.name} with {least.dtype}: {least.reason}"
