"""Ways to keep the recordings, and which of them fit this machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from outofcore.domains.neural import schema
from outofcore.domains.neural.compression import Compressed, holding, measure, sample_frames
from outofcore.domains.neural.dtypes import StimulusType, stored_as
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.schema import row_bytes
from outofcore.domains.planning import LoaderBytes, Outlook
from outofcore.sizes import format_bytes
from outofcore.store.schema import Schema
from outofcore.table import Kind, Table

# The rest of the memory is for the model, the system and the page cache.
MEMORY_SHARE = 0.9
# Below this share of the bins in memory, a hybrid reads as much from the disk as streaming does.
WORTH_HOLDING = 0.05
# Percent that trials of any length add to what loaders of one long run need.
UNEVEN = 12

COLUMNS: tuple[tuple[str, Kind], ...] = (
    ("verdict", "text"),
    ("way", "text"),
    ("pixels", "text"),
    ("codec", "text"),
    ("memory", "bytes"),
    ("store", "bytes"),
    ("disk needed", "bytes"),
    ("decoded a second", "bytes"),
)


@dataclass(frozen=True)
class Size:
    """Bytes of the recordings with pixels of one type."""

    decoded: int
    held: LoaderBytes  # by the loaders of both splits
    budget: LoaderBytes  # for the loaders, which get half of it each, however the hash divides the trials


@dataclass(frozen=True)
class Room:
    """Bytes of a machine."""

    memory: int
    disk: int  # free where stores are written
    margin: float = 0.2  # share added to the disk requirement
    copies: int = 1  # of a store on that disk after a DVC commit

    @property
    def usable(self) -> int:
        """Memory for data."""
        return int(self.memory * MEMORY_SHARE)


def ways_table(section: NeuralSection, outlook: Outlook) -> Table:
    """The five ways, their requirements, and which of them fit this machine."""
    stored = section.source.stimulus_dtype
    schemas = schema.schemas(section, outlook.files)
    frames = sample_frames(outlook.files, section)
    dtypes = holding(frames, stored)
    sizes = {dtype: size_of(section, schemas, dtype, outlook) for dtype in dtypes}
    room = Room(outlook.memory, outlook.free_bytes, outlook.machine.disk_margin, outlook.store_copies)
    rows = list(ways(sizes, room, measure(frames, stored, dtypes[:2], section)))
    totals = ", ".join(f"{format_bytes(size.decoded)} as {dtype}" for dtype, size in sizes.items())
    has = f"{format_bytes(room.usable)} of memory and {format_bytes(room.disk)} of disk"
    count = f"{len(schemas)} session{'s' * (len(schemas) != 1)}"
    title = f"advice: {advice(rows)}\n{count}, {totals}; this machine has {has} for them: ways to keep them"
    return Table(COLUMNS, rows, "ways", title, NOTES)


def size_of(section: NeuralSection, schemas: Mapping[str, Schema], dtype: StimulusType, outlook: Outlook) -> Size:
    """Sizes from the shapes of the sessions alone; bins rejected later still count."""
    bins = {name: int(schema.attributes["bins_in_trials"]) for name, schema in schemas.items()}
    typed = {
        name: replace(schema, rows=tuple(_typed(field, dtype) for field in schema.rows))
        for name, schema in schemas.items()
    }
    shares = 1 - section.splits.val - section.splits.test, section.splits.val
    splits = [{name: int(count * share) for name, count in bins.items()} for share in shares]
    source = section.source.model_copy(update={"stimulus_dtype": dtype})
    section = section.model_copy(update={"source": source})
    whole = outlook.loaders(section, typed, [bins])
    return Size(
        decoded=sum(count * row_bytes(typed[name]) for name, count in bins.items()),
        held=outlook.loaders(section, typed, splits),
        budget=LoaderBytes(*(2 * size * (100 + UNEVEN) // 100 for size in whole)),
    )


def _typed(field: Any, dtype: StimulusType) -> Any:
    return replace(field, dtype=str(stored_as(dtype))) if field.name == "stim" else field


def ways(
    sizes: Mapping[StimulusType, Size], room: Room, compressed: Sequence[Compressed] = ()
) -> Iterator[dict[str, Any]]:
    """The five ways, in order of preference; all use the narrowest pixels, wider ones are listed to compare."""

    def way(name: str, dtype: StimulusType, codec: Compressed | None, memory: int, budget: int) -> dict[str, Any]:
        store = math.ceil(sizes[dtype].decoded * (codec.share if codec else 1))
        disk = math.ceil(store * room.copies * (1 + room.margin))
        named = codec.codec if codec else "none"
        residency, more = ("streamed", ", tensors.transforms and tensors.cast") if name == AT_READ else (name, "")
        lacking = [
            f"needs {format_bytes(need)} of {what}, {format_bytes(has)} {state}"
            for need, has, what, state in ((memory, room.usable, "memory", "usable"), (disk, room.disk, "disk", "free"))
            if need > has
        ]
        return {
            "verdict": "; ".join(lacking) or "fits",
            "way": name,
            "pixels": dtype,
            "codec": named,
            "memory": memory,
            "store": store,
            "disk needed": disk,
            "decoded a second": codec.decoded_per_second if codec and name not in ("ram", "mapped") else None,
            "settings": f"residency {residency}, memory {format_bytes(budget)} (machine.yaml); "
            f"source.stimulus_dtype {dtype}, store.codec {named}{more} (params.yaml)",
        }

    def smallest(dtype: StimulusType) -> Compressed | None:
        return min((each for each in compressed if each.dtype == dtype), key=lambda each: each.share, default=None)

    def in_memory(dtype: StimulusType) -> dict[str, Any]:
        return way("ram", dtype, smallest(dtype), sizes[dtype].held.loaded, sizes[dtype].budget.loaded)

    def mapped(dtype: StimulusType) -> dict[str, Any]:
        return way("mapped", dtype, None, sizes[dtype].held.mapped, sizes[dtype].budget.streamed)

    narrow, *wider = sizes
    held, least = sizes[narrow].held, sizes[narrow].budget.streamed
    yield in_memory(narrow)
    for codec in compressed:
        if codec.dtype == narrow:
            yield way("streamed", narrow, codec, held.streamed, least)
    yield way(AT_READ, narrow, smallest(narrow), held.streamed, least)
    yield mapped(narrow)
    part = max(0, min(room.usable - least, held.loaded))
    if part >= WORTH_HOLDING * held.loaded:
        yield way("hybrid", narrow, smallest(narrow), least + part, least + part)
    for dtype in wider:
        yield in_memory(dtype)
        yield mapped(dtype)


AT_READ = "transforms at read"
NOTES = (
    "memory: what the loaders hold at least; disk needed: the store, DVC's copy where it makes one, and the margin",
    "decoded a second: by one thread, measured just now on a sample of the frames",
)


def advice(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line: the first way that fits, or the one that lacks least."""
    least = min(rows, key=lambda row: (row["disk needed"], row["memory"]))
    chosen = next((row for row in rows if row["verdict"] == "fits"), least)
    line = f"{chosen['way']} with {chosen['pixels']}, codec {chosen['codec']}"
    if chosen["verdict"] == "fits":
        return f"{line}: {chosen['settings']}"
    return f"no way fits; the smallest is {line}: {chosen['verdict']}"
