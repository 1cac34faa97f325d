"""Ways to keep the recordings, and which of them fit this machine: by their shapes, and by codecs tried on frames."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.display.table import DisplayTable, Kind
from outofcore.domains.neural import schema
from outofcore.domains.neural.convert import convert
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.schema import row_bytes
from outofcore.domains.neural.source import units_of
from outofcore.domains.neural.survey import survey_sessions
from outofcore.domains.neural.transforms import StimulusType, bfloat16_values, encode, stored_as
from outofcore.domains.planning import LoaderBytes, Outlook
from outofcore.raw.files import RawFile
from outofcore.settings.sizes import format_bytes
from outofcore.store.codecs import CODECS, ChunkCodec, CodecName
from outofcore.store.schema import Schema

# The rest of the memory is for the model, the system and the page cache.
MEMORY_SHARE = 0.9
# Below this share of the bins in memory, a hybrid reads as much from the disk as streaming does.
WORTH_HOLDING = 0.05
# Percent that trials of any length add to what loaders of one long run need.
UNEVEN = 12

# Of at most so many sessions, so many units are sampled; a session that the cutting process reads, at its start.
SESSIONS, UNITS, UNITS_PASSED = 6, 2, 64

AT_READ = "transforms at read"

COLUMNS: tuple[tuple[str, Kind], ...] = (
    ("verdict", "text"),
    ("way", "text"),
    ("pixels", "text"),
    ("codec", "text"),
    ("memory", "bytes"),
    ("store", "bytes"),
    ("disk needed", "bytes"),
)

NOTES = (
    "memory: what the loaders hold at least; disk needed: the store, DVC's copy where it makes one, and the margin",
)


@dataclass(frozen=True)
class Size:
    """Bytes of the recordings with pixels of one type."""

    decoded: int
    loaders: LoaderBytes  # by the loaders of both splits
    budget: LoaderBytes  # for the loaders, which get half of it each, however the hash divides the trials


def ways_table(section: NeuralSection, outlook: Outlook) -> DisplayTable:
    """The five ways, their requirements, and which of them fit this machine."""
    schemas = schema.schemas(section, outlook.files)
    frames = sample_frames(outlook.files, section)
    dtypes = holding(frames, section.source.stimulus_dtype)
    sizes = {dtype: size_of(section, schemas, dtype, outlook) for dtype in dtypes}
    shares = {dtype: measure(frames, dtype, section) for dtype in dtypes[:2]}
    rows = list(ways(sizes, shares, outlook))
    totals = ", ".join(f"{format_bytes(size.decoded)} as {dtype}" for dtype, size in sizes.items())
    has = f"{format_bytes(_usable(outlook))} of memory and {format_bytes(outlook.free_bytes)} of disk"
    count = f"{len(schemas)} session{'s' * (len(schemas) != 1)}"
    title = f"advice: {advice(rows)}\n{count}, {totals}; this machine has {has} for them: ways to keep them"
    return DisplayTable(COLUMNS, rows, "ways", title, NOTES)


def size_of(section: NeuralSection, schemas: Mapping[str, Schema], dtype: StimulusType, outlook: Outlook) -> Size:
    """Sizes from the shapes of the sessions alone; bins rejected later still count."""
    bins = {name: int(schema.attributes["bins_in_trials"]) for name, schema in schemas.items()}
    typed = {
        name: replace(schema, rows=tuple(_typed(field, dtype) for field in schema.rows))
        for name, schema in schemas.items()
    }
    splits = [{name: int(count * share) for name, count in bins.items()} for share in section.splits.expected[:2]]
    source = section.source.model_copy(update={"stimulus_dtype": dtype})
    section = section.model_copy(update={"source": source})
    whole = outlook.loaders(section, typed, [bins])
    return Size(
        decoded=sum(count * row_bytes(typed[name]) for name, count in bins.items()),
        loaders=outlook.loaders(section, typed, splits),
        budget=LoaderBytes(*(2 * size * (100 + UNEVEN) // 100 for size in whole)),
    )


def _typed(field: Any, dtype: StimulusType) -> Any:
    return replace(field, dtype=str(stored_as(dtype))) if field.name == "stim" else field


def _usable(outlook: Outlook) -> int:
    """Memory for data."""
    return int(outlook.memory * MEMORY_SHARE)


def ways(
    sizes: Mapping[StimulusType, Size], shares: Mapping[StimulusType, Mapping[CodecName, float]], outlook: Outlook
) -> Iterator[dict[str, Any]]:
    """The five ways with the narrowest pixels, in order of preference; then two of wider pixels, to compare.

    ``shares`` are encoded bytes per decoded byte.
    """
    narrow = next(iter(sizes))
    for dtype, size in sizes.items():
        measured = shares.get(dtype, {})
        smallest: CodecName = min(measured, key=measured.__getitem__, default="none")
        least = size.budget.streamed
        plans: list[tuple[str, CodecName, int, int]] = [("ram", smallest, size.loaders.loaded, size.budget.loaded)]
        if dtype == narrow:
            plans += [("streamed", codec, size.loaders.streamed, least) for codec in measured]
            plans.append((AT_READ, smallest, size.loaders.streamed, least))
        plans.append(("mapped", "none", size.loaders.mapped, least))
        part = max(0, min(_usable(outlook) - least, size.loaders.loaded))
        if dtype == narrow and part >= WORTH_HOLDING * size.loaders.loaded:
            plans.append(("hybrid", smallest, least + part, least + part))
        for name, codec, memory, budget in plans:
            store = math.ceil(size.decoded * measured.get(codec, 1))
            disk = math.ceil(store * outlook.store_copies * (1 + outlook.machine.disk_margin))
            residency, more = (name, "") if name != AT_READ else ("streamed", ", tensors.transforms and tensors.cast")
            yield {
                "verdict": _verdict(memory, disk, outlook),
                "way": name,
                "pixels": dtype,
                "codec": codec,
                "memory": memory,
                "store": store,
                "disk needed": disk,
                "settings": f"residency {residency}, memory {format_bytes(budget)} (machine.yaml); "
                f"source.stimulus_dtype {dtype}, store.codec {codec}{more} (params.yaml)",
            }


def _verdict(memory: int, disk: int, outlook: Outlook) -> str:
    lacking = [
        f"needs {format_bytes(need)} of {what}, {format_bytes(has)} {state}"
        for need, has, what, state in (
            (memory, _usable(outlook), "memory", "usable"),
            (disk, outlook.free_bytes, "disk", "free"),
        )
        if need > has
    ]
    return "; ".join(lacking) or "fits"


def advice(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line: the first way that fits, or the one that lacks least."""
    least = min(rows, key=lambda row: (row["disk needed"], row["memory"]))
    chosen = next((row for row in rows if row["verdict"] == "fits"), least)
    line = f"{chosen['way']} with {chosen['pixels']}, codec {chosen['codec']}"
    if chosen["verdict"] == "fits":
        return f"{line}: {chosen['settings']}"
    return f"no way fits; the smallest is {line}: {chosen['verdict']}"


def sample_frames(files: Sequence[RawFile], section: NeuralSection) -> list[npt.NDArray[Any]]:
    """Frames of a few units of a few sessions as numbers, not encoded; empty if none can be converted."""
    sessions = [(session, survey) for session, survey in survey_sessions(files, section) if session.kind != "none"]
    frames = []
    for session, survey in sessions[:: max(1, -(-len(sessions) // SESSIONS))]:
        passed = islice(units_of(session, survey, section), UNITS_PASSED)
        units = [unit for unit in passed if "bins" in unit.detail]
        for unit in units[:: max(1, len(units) // UNITS)][:UNITS]:
            stim = convert(unit, section).rows["stim"]
            if len(stim):
                frames.append(bfloat16_values(stim) if section.source.stimulus_dtype == "bfloat16" else stim)
    return frames


def holding(frames: Sequence[npt.NDArray[Any]], dtype: StimulusType) -> tuple[StimulusType, ...]:
    """Types that can hold the sampled pixels, narrowest first."""
    wide: tuple[StimulusType, ...] = ("bfloat16", "float32")
    whole = dtype == "uint8" or all(encode(block, "uint8")[1] is None for block in frames)
    return ("uint8", *wide) if whole else wide


def measure(frames: Sequence[npt.NDArray[Any]], dtype: StimulusType, section: NeuralSection) -> dict[CodecName, float]:
    """Encoded bytes per decoded byte of the frames with each codec, as pixels of a type, in the store's chunks."""
    rows = section.store.chunk_rows
    stored = [encode(block, dtype)[0] for block in frames]
    chunks = [
        np.ascontiguousarray(block[start : start + rows]) for block in stored for start in range(0, len(block), rows)
    ]
    shares: dict[CodecName, float] = {}
    compressing: list[CodecName] = [name for name, codec in CODECS.items() if codec.zarr]
    for name in compressing if chunks else ():
        codec = ChunkCodec(name, section.store.layout().level, str(stored_as(dtype)))
        shares[name] = sum(len(codec.encode(chunk)) for chunk in chunks) / sum(chunk.nbytes for chunk in chunks)
    return shares
