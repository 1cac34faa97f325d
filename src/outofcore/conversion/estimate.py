"""What a conversion will take, known before it writes: bytes on disk, memory and time, from a sample of its input.

The run and the plan call the same function: what a plan says is what the run checks.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from outofcore.conversion.assemble import Assembler
from outofcore.conversion.executors import open_executor
from outofcore.conversion.journal import work_folder
from outofcore.conversion.summary import attributes, counted, doubts, sources
from outofcore.domains.domain import Domain
from outofcore.domains.splits import SPLITS, splits_of
from outofcore.domains.units import unit_converter
from outofcore.errors import BudgetError
from outofcore.ndarrays import Bytes
from outofcore.raw.cutting import UNIT_BYTES
from outofcore.raw.files import RawFile
from outofcore.raw.unit import NO_AUDIT, AuditRate, Unit, UnitResult
from outofcore.settings.machine import Machine
from outofcore.settings.sizes import format_bytes
from outofcore.space.forecast import Need, demands, store_needs
from outofcore.space.links import Commit
from outofcore.store.codecs import CRC_BYTES
from outofcore.store.shards import index_bytes
from outofcore.store.table_writer import TableWriter
from outofcore.store.writer import StoreWriter
from outofcore.system.parallel import in_order
from outofcore.system.peak_memory import MemoryWatch

ENCODERS = 4
AHEAD = 4
"""Units of the sample in flight."""
# Between this many units and twice as many are converted, spread evenly over the input; of small ones, as many as hold
# between half of these bytes and all of them, decompressed.
SAMPLE_UNITS = 12
SAMPLE_BYTES = 16 * 2**20
# Beyond this much raw input the sample is taken from its beginning: reading the rest would not pay off.
SAMPLE_RAW_BYTES = 4 * 2**30
# Of plain raw files, up to which a store of any size that they can give is no matter for a disk.
LITTLE_BYTES = 64 << 20
TEXT_BYTES = 8  # of a character of a text, its offset included, on disk
METADATA_BYTES = 1 << 20  # zarr.json of all tables, and the seal
DIGEST_CHARACTERS = 128
# Of what only the conversion itself holds: the oracle, audited records, shards that are being finished.
BEYOND_SAMPLE = 128 << 20
# Of a key that is remembered to find duplicates, while runs of keys are merged.
SEEN_KEY_BYTES = 48
# By which the peak of one sample differs from run to run; a figure that is named has to suffice in the next.
_VARIES = 32 << 20
_ROUNDED = 10**7


@dataclass(frozen=True)
class Estimate:
    """A forecast of a store."""

    store_bytes: int  # on disk
    rows: int  # in all splits
    raw_bytes: int  # of the raw input
    sampled_bytes: int  # raw bytes that were converted for it
    unit_bytes: int = 0  # the most that a unit of the sample and its result hold
    sequences: int = 0  # before duplicates are removed
    unusual: int = 0  # of these, the most of an unusual kind that are to be expected
    rejected: Mapping[str, int] = field(default_factory=dict)  # records of the sample by reason
    doubts: tuple[str, ...] = ()  # what in the sample looks like a mistake in the settings
    # for the conversion at the rate of the sample after its first unit, which may wait for compilation; 0 for one unit
    seconds: float = field(default=0.0, compare=False)
    bound: int | None = None  # of its bytes on disk, where little input is known to give no more

    def audit_rate(self, records: int) -> AuditRate:
        """At which about ``records`` sequences are audited, and as many unusual ones, or all if there are fewer.

        Of input with a bound, which need not be sampled, each unit has a share.
        """
        if self.bound is not None:
            return AuditRate(per_byte=records / max(1, self.raw_bytes))
        return AuditRate(max(1, self.sequences // records), max(1, min(self.sequences, self.unusual) // records))


@dataclass(frozen=True)
class ConversionForecast:
    """What a conversion will take; memory is counted with its workers."""

    estimate: Estimate  # of the store
    needs: tuple[Need, ...]  # on disk
    held_bytes: int = 0  # by this process before the sample was converted
    memory_bytes: int = 0  # beyond these, with as many units in flight as for the sample
    workers: int = 1  # on this machine

    def units_ahead(self, name: str, budget: int, *, refuse: bool) -> int:
        """How many units may be in flight.

        Raises BudgetError, if it may ``refuse``, where fewer than those of the sample do not fit.
        """
        least = self.held_bytes + self.memory_bytes
        if refuse and least > budget:
            figure = -(-(least + _VARIES) // _ROUNDED) * _ROUNDED
            raise BudgetError(
                f"{name}: memory is {format_bytes(budget)}, and this conversion takes up to {format_bytes(figure)}; "
                f"set memory in machine.yaml, or OUTOFCORE_MEMORY, to {figure // 10**6}MB"
                f"{', or use fewer workers' if self.workers > 1 else ''}"
            )
        return max(1, AHEAD + (budget - least) // max(1, self.estimate.unit_bytes))


def forecast_conversion(
    domain: Domain,
    section: Any,
    files: Sequence[RawFile],
    store: Path,
    machine: Machine,
    commit: Commit | None = None,
    replaced: int = 0,
    *,
    sample: bool = True,
) -> ConversionForecast:
    """Convert a sample of the input in memory; ``commit`` is DVC's handling of the store, None without DVC.

    ``replaced`` are bytes of an earlier store that are freed before the first write. Without ``sample``, little input
    is not converted if even its bound fits on the disk, and no memory is stated that has to be kept.
    """
    bound = store_bound(domain, section, files)
    needs_of = partial(store_needs, store, commit=commit, work=work_folder(store, machine.scratch), replaced=replaced)
    if bound is not None and not sample and "memory" not in machine.stated:
        needs = needs_of(bound)
        if all(demand.fits for demand in demands(needs, margin=machine.disk_margin, reserve=machine.disk_reserve)):
            raw_bytes = sum(file.bytes for file in files)
            return ConversionForecast(Estimate(bound, 0, raw_bytes, 0, bound=bound), needs)
    executor_of = open_executor(machine.engine, machine.workers, address=machine.dask, files=files, domain=domain.name)
    with MemoryWatch(interval=0.05) as watch, executor_of as executor:
        before = watch.peak_bytes
        expected = estimate(domain, section, files, executor)
    keys = expected.sequences if getattr(section.filters, "duplicates", "keep") != "keep" else 0
    return ConversionForecast(
        estimate=replace(expected, bound=bound),
        needs=needs_of(expected.store_bytes),
        held_bytes=before,
        memory_bytes=watch.peak_bytes - before + BEYOND_SAMPLE + SEEN_KEY_BYTES * keys,
        workers=machine.workers,
    )


def store_bound(domain: Domain, section: Any, files: Sequence[RawFile]) -> int | None:
    """At most the bytes of the store of little input, None for more, or where a domain knows no bound."""
    raw_bytes, longest = sum(file.bytes for file in files), max((len(file.name) for file in files), default=0)
    shortest = {end: least for end, *least in domain.shortest}
    ends = {next((end for end in shortest if file.name.endswith(end)), "") for file in files}
    if raw_bytes > LITTLE_BYTES or not ends <= shortest.keys():
        return None
    rows, sequences = (raw_bytes // min((shortest[end][kind] for end in ends), default=1) for kind in (0, 1))
    (schema,) = domain.schemas(section, files).values()
    layout = section.store.layout()
    stored = sum(field.row_bytes for field in schema.rows) + CRC_BYTES
    listed = sum(field.row_bytes for field in schema.sequences if field.dtype != "string") + CRC_BYTES
    texts = raw_bytes + sequences * longest + len(files) * (longest + DIGEST_CHARACTERS)
    indices = 2 * len(SPLITS) * len(schema.rows) * index_bytes(layout.shard_rows // layout.chunk_rows)
    return rows * stored + sequences * listed + texts * TEXT_BYTES + indices + METADATA_BYTES


class _CountedTable(TableWriter):
    """Encodes its chunks, and keeps nothing but their bytes by field."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.encoded = Counter[str]()

    def _append_chunk(self, encoded: list[bytes]) -> None:
        self.encoded.update({field.name: len(content) for field, content in zip(self.fields, encoded, strict=True)})

    def size(self, scale: float, parts: float) -> float:
        """Bytes of the shards and checksums of as many tables as ``parts``, of ``scale`` times the rows in all."""
        self.end()
        rows = int(self.rows * scale)
        chunks, shards = -(-rows // self.layout.chunk_rows), -(-rows // self.layout.shard_rows)
        index = index_bytes(self.layout.shard_rows // self.layout.chunk_rows)
        files = max(parts, shards) * sum(size > 0 for size in self.encoded.values())
        return self.encoded.total() * scale + files * index + CRC_BYTES * len(self.fields) * chunks


def estimate(
    domain: Domain,
    section: Any,
    files: Sequence[RawFile],
    executor: Executor,
    ahead: int = AHEAD,
) -> Estimate:
    """Convert a sample of the input without writing, and scale up; small input is converted as a whole.

    Nothing is audited.
    """
    raw_bytes = sum(file.bytes for file in files)
    opened = _opened(files, raw_bytes)
    opened = opened if any(file.bytes for file in opened) else files
    opened_bytes = sum(file.bytes for file in opened)
    units, share = _spread(domain.units(opened, section), opened_bytes)
    complete = share == 1.0 and opened_bytes == raw_bytes
    share *= opened_bytes / raw_bytes if raw_bytes else 1
    schemas = domain.schemas(section, files)
    convert = unit_converter(domain, section, NO_AUDIT)
    drop = getattr(section.filters, "duplicates", "keep") != "keep"
    with ThreadPoolExecutor(ENCODERS, thread_name_prefix="encode") as encoders:
        store = StoreWriter(Path(), schemas, section.store.layout(), SPLITS, encoders, _CountedTable)
        assembler = Assembler(store, partial(splits_of, section=section.splits), drop_duplicates=drop and complete)
        unit_keys, parts = list[Bytes](), set[str]()
        unusual, unit_bytes, begun = 0, 0, 0.0
        for unit, result in in_order(executor, convert, units, ahead):
            assembler.add(unit, result if complete else _apart(result))
            unit_keys.append(result.keys[int(result.continues) :])
            parts |= {result.part} if len(result.keys) else set()
            unusual += result.unusual
            unit_bytes = max(unit_bytes, _held_bytes(unit, result))
            begun = begun or time.monotonic()
        later = len(units) - 1
        seconds = (time.monotonic() - begun) * len(units) / later / share if later > 0 else 0.0
        scale = (_kept(unit_keys, share) if drop and not complete else 1.0) / share
        root = attributes(domain, section, schemas, counted(assembler, store))
        # Placeholder digests: only their length and incompressibility matter here.
        listed = sources(files, assembler.by_source, (hashlib.sha256(file.name.encode()).hexdigest() for file in files))
        *tables, last = cast("list[_CountedTable]", [*store.tables(), store.sources_table(listed)])
        parts_per_sampled = len(schemas) / max(1, len(parts))
        size = sum(table.size(scale, parts_per_sampled) for table in tables) + last.size(1.0, 1.0)
        size += sum(map(len, store.documents([*tables, last], root).values()))
        found = sum(map(len, unit_keys))
        return Estimate(
            store_bytes=int(size),
            rows=int(sum(store.counts()["rows"].values()) * scale),
            unit_bytes=unit_bytes,
            sequences=int(found / share),
            unusual=_at_most(unusual, found, share, spread=opened_bytes <= SAMPLE_RAW_BYTES),
            raw_bytes=raw_bytes,
            sampled_bytes=int(raw_bytes * share),
            rejected=dict(assembler.rejected.most_common()),
            doubts=tuple(doubts(domain, section, assembler)),
            seconds=seconds,
        )


def _held_bytes(unit: Unit, result: UnitResult) -> int:
    """Bytes of a unit and the columns of its result."""
    columns = [*result.rows.values(), *result.sequences.values(), result.keys]
    return len(unit.payload) + sum(column.nbytes for column in columns)


def _apart(result: UnitResult) -> UnitResult:
    """The result with its first and last sequence as whole ones: the units next to it are not in the sample."""
    return replace(result, found=result.found + result.continues, continues=False, unfinished=False)


def _at_most(unusual: int, found: int, share: float, *, spread: bool) -> int:
    """How many unusual sequences there may be; none seen leaves room for 3 / share, with a confidence of 95 %."""
    if share == 1:
        return unusual
    return int(max(unusual, 3) / share) if spread else int(found / share)


def _kept(unit_keys: Sequence[Bytes], share: float) -> float:
    """Share of all sequences that remains without duplicates, by the keys of a share of all units.

    Of pairs in different units, a sample of a share f of all units sees a share f squared.
    """
    unique = [np.unique(keys, axis=0) for keys in unit_keys]
    total, separate = sum(map(len, unit_keys)), sum(map(len, unique))
    if not total:
        return 1.0
    different = len(np.unique(np.concatenate(unique), axis=0))
    repeated = (total - separate + (separate - different) / share) / total
    return max(different * share / total, 1 - repeated)  # what was seen remains, however often it comes


def _opened(files: Sequence[RawFile], raw_bytes: int) -> Sequence[RawFile]:
    """All files, or, where several are a unit, those of a sample of units: the others are not opened."""
    unit_files = len(files) * UNIT_BYTES // max(raw_bytes, 1)
    if unit_files < 2:
        return files
    units = len(files) // unit_files
    halvings = max(1, min(raw_bytes // SAMPLE_BYTES, units // (2 * SAMPLE_UNITS))).bit_length() - 1
    return [file for number, file in enumerate(files) if _drawn(number // unit_files, halvings)]


def _drawn(number: int, halvings: int) -> bool:
    """Whether a unit is in a sample of one of every ``2**halvings``: each halving keeps one of two neighbours.

    A hash decides which one: of units at equal distances, a sample could have both copies of all that comes twice.
    """
    return all(number >> step & 1 == _coin(step, number >> (step + 1)) for step in range(halvings))


def _coin(step: int, pair: int) -> int:
    return hashlib.sha256(f"{step} {pair}".encode()).digest()[0] & 1


def _spread(units: Iterable[Unit], raw_bytes: int) -> tuple[list[Unit], float]:
    """A sample of units, one of every 2**k, and the share of the input that they hold; 1.0 if these are all.

    Shares are of decompressed bytes if units carry some: a compressed file is read in blocks of many units.
    """
    kept: list[tuple[int, Unit]] = []
    count, halvings, raw, decoded, payload_bytes = 0, 0, 0, 0, 0
    for number, unit in enumerate(units):
        count = number + 1
        raw += unit.raw_bytes
        decoded += len(unit.payload)
        if _drawn(number, halvings):
            kept.append((number, unit))
            payload_bytes += len(unit.payload)
        if len(kept) >= 2 * SAMPLE_UNITS and (payload_bytes > SAMPLE_BYTES or not payload_bytes):
            halvings += 1
            kept = [(at, candidate) for at, candidate in kept if _drawn(at, halvings)]
            payload_bytes = sum(len(candidate.payload) for _, candidate in kept)
        if raw > SAMPLE_RAW_BYTES:
            break
    chosen = [candidate for _, candidate in kept]
    if not halvings and raw <= SAMPLE_RAW_BYTES:
        return chosen, 1.0
    part = payload_bytes / decoded if payload_bytes else sum(unit.raw_bytes for unit in chosen) / max(raw, 1)
    share = part * raw / max(raw_bytes, 1)
    return chosen, share or len(chosen) / count  # empty files alone have no bytes
