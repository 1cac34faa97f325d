"""What training will hold in memory before there is a store, and the tables of it that ``outofcore plan`` prints.

:class:`Forecast` is the one place that knows: the model and a step by :mod:`.prediction`, data by the loader's own sum.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, get_args

import numpy as np
import torch

from outofcore.display.table import DisplayTable, Kind, columns
from outofcore.domains.planning import LoaderBytes
from outofcore.domains.reading import RAW, OfSequences, Reading, Streaming, Windowed
from outofcore.domains.task import Batch
from outofcore.errors import ParamsError
from outofcore.loading.memory import (
    MemoryEstimate,
    SampleBytes,
    decoding_bytes,
    table_bytes,
    tensors_of_sample,
)
from outofcore.loading.sequences import indexable, refuse_text
from outofcore.order.plain import PlainSampler, Shuffle
from outofcore.order.windows import Window, Windows
from outofcore.settings.machine import Machine
from outofcore.settings.sizes import format_bytes
from outofcore.store.schema import Field, Schema, dtype_of
from outofcore.training.loaders import LOADERS
from outofcore.training.prediction import ModelMemory, model_memory

PROCESS_BYTES = (850 if torch.version.cuda else 500) << 20
"""The interpreter, its libraries and compiled code in a training process on a CPU; a test measures it.

Builds of torch for CUDA load its libraries even if the process trains on a CPU.
"""
PARTS = ("model", "gradients", "optimizer", "activations")
ESTIMATED = {"loaded": "whole", "streamed": "streamed", "mapped": "fixed"}
"""What :class:`MemoryEstimate` calls the bytes of each way of reading."""
SMALL = 8 * 10**9
"""Memory of the machine that model sizes are compared with."""
SHARE = 0.75
"""Share of that machine for training; the rest is the system's."""


@dataclass(frozen=True)
class Forecast:
    """What training will hold with a store of these schemas and rows."""

    domain: Any
    section: Any
    schemas: Mapping[str, Schema]  # by part
    rows: int
    machine: Machine
    sequences: int = 0
    ranks: int = 1  # processes that train together on this machine: they share its memory and each batch

    @cached_property
    def model(self) -> ModelMemory:
        """Of the model and a step on the part with the largest rows, which decides: a batch is of one part."""
        parts = sorted(self.schemas, key=lambda part: -sum(field.row_bytes for field in self.schemas[part].rows))
        schemas = {part: self.schemas[part] for part in parts}
        sample, _ = made_up_sample(schemas[parts[0]], self._reading(self.section))
        train, make = self.section.train, self.domain.planned_task()
        of_rank = train.model_copy(update={"batch_size": -(-train.batch_size // self.ranks)})
        return model_memory(lambda: make(self.section, schemas), sample, of_rank, self.machine.micro_batch)

    @cached_property
    def data(self) -> dict[str, int]:
        """Of the loaders or streams of both splits in all ranks, by the way of reading."""
        streams = {}
        if isinstance(self.domain, Streaming):
            streams[RAW] = LOADERS * self.domain.stream_bytes(self.section, self.machine.workers)
            if self.domain.streamed(self.section):
                return streams
        return {**self.loaders_of(self.section, self.schemas, self._splits)._asdict(), **streams}

    @property
    def least_of_a_loader(self) -> int:
        """Data of the larger of both loaders or streams in the chosen way of reading."""
        if self.way == RAW:
            return self.data[RAW] // LOADERS
        needs = self.needs(self.section, self.schemas, self._splits)
        return int(max(sum(map(attrgetter(ESTIMATED[self.way]), split)) for split in needs))

    @property
    def given_to_a_loader(self) -> int:
        """What training gives one of two in each rank."""
        return self.machine.memory // self.ranks // LOADERS

    @property
    def way(self) -> str:
        """The way of reading with the least memory that these settings allow."""
        if isinstance(self.domain, Streaming) and self.domain.streamed(self.section):
            return RAW
        return {"ram": "loaded", "mapped": "mapped"}.get(self.machine.residency, "streamed")

    @property
    def _splits(self) -> list[dict[str, int]]:
        """Rows by part of the splits that training reads."""
        shares = [share for share in self.section.splits.expected[:2] if share]
        return [dict.fromkeys(self.schemas, round(self.rows * share / len(self.schemas))) for share in shares]

    def loaders_of(
        self, section: Any, schemas: Mapping[str, Schema], splits: Sequence[Mapping[str, int]]
    ) -> LoaderBytes:
        """Of the loaders of splits with these rows by part in all ranks, for other settings and schemas."""
        needs = [estimate for split in self.needs(section, schemas, splits) for estimate in split]
        return LoaderBytes(*(self.ranks * sum(map(attrgetter(name), needs)) for name in ESTIMATED.values()))

    def needs(
        self, section: Any, schemas: Mapping[str, Schema], splits: Sequence[Mapping[str, int]]
    ) -> list[list[MemoryEstimate]]:
        """Of each part, by split; the first is that of training: balanced batches, and no columns."""
        reading, per_row = self._reading(section), self.sequences / self.rows if self.rows else 0
        estimates = []
        for number, split in enumerate(splits):
            batches = {"taken": self.model.columns} if number else {"balanced": self.model.balanced}
            of_rank: dict[str, Any] = {"threads": self.machine.workers, "world": self.ranks, **batches}
            estimates.append(
                [
                    loader_needs(schemas[part], rows, round(rows * per_row), reading, section, **of_rank)
                    for part, rows in split.items()
                ]
            )
        return estimates

    def takes(self, section: Any, micro_batch: int) -> dict[str, int]:
        """Of the whole process with other settings, by the way of reading."""
        return replace(self, section=section, machine=replace(self.machine, micro_batch=micro_batch)).total

    @property
    def total(self) -> dict[str, int]:
        """Of all ranks, by the way of reading."""
        return {way: self.ranks * (PROCESS_BYTES + self.model.total) + size for way, size in self.data.items()}

    @property
    def least(self) -> int:
        """Of all ranks in the chosen way of reading."""
        return self.total[self.way]

    def _reading(self, section: Any) -> Reading:
        attributes = next(iter(self.schemas.values())).attributes
        reading: Reading = self.domain.reading({"params": section.model_dump(mode="json"), **attributes}, section)
        return reading


@dataclass(frozen=True)
class Fit:
    """Whether training fits: a loader in its share of the memory that may be set, the process in the machine's."""

    fits: bool
    least_bytes: int  # of all ranks
    usable_bytes: int  # for them
    loader_bytes: int  # of one rank
    loader_share_bytes: int  # for it
    samples_at_a_time: int


def fit_of(forecast: Forecast, usable: int, *, accelerator: bool = False) -> Fit:
    """Whether training fits ``usable`` bytes of this machine, the model aside if that is on an ``accelerator``."""
    data, share = forecast.least_of_a_loader, forecast.given_to_a_loader
    least = forecast.least - (forecast.ranks * forecast.model.total if accelerator else 0)
    return Fit(data <= share and least <= usable, least, usable, data, share, forecast.model.samples)


def parts_table(forecast: Forecast, fit: Fit) -> DisplayTable:
    """What training holds, part by part, for each way of reading; the first line of its title is the verdict."""
    model, ways, ranks = forecast.model, forecast.data, forecast.ranks
    rows = [
        {"part": "data", **ways},
        *({"part": part, **dict.fromkeys(ways, ranks * getattr(model, part))} for part in PARTS),
        {"part": "interpreter and libraries", **dict.fromkeys(ways, ranks * PROCESS_BYTES)},
        {"part": "in all", **forecast.total},
        {"part": "of it on an accelerator", **dict.fromkeys(ways, ranks * model.total)},
    ]
    sizes = {name: format_bytes(size) for name, size in vars(fit).items() if name.endswith("_bytes")}
    verdict = f"training {'fits' if fit.fits else 'does NOT fit'}: "
    if fit.loader_bytes > fit.loader_share_bytes:
        of_rank = "what a rank gets of " if ranks > 1 else ""
        verdict += f"a loader takes at least {sizes['loader_bytes']}, and gets {sizes['loader_share_bytes']}, half of "
        verdict += f"{of_rank}'memory' in machine.yaml"
    else:
        verdict += f"at least {sizes['least_bytes']} of {sizes['usable_bytes']} of memory"
    train, to_train = forecast.section.train, round(forecast.rows * forecast.section.splits.expected[0])
    title = f"{verdict}\n{train.preset} model, {model.parameters:,} parameters, {model.samples:,} samples at a time"
    title += f" in each of {ranks} ranks" if ranks > 1 else ""
    title += f", {to_train:,} {forecast.domain.row}s" if to_train else ""
    note = "loaded: all rows in memory; streamed: at least, the loader fills its budget;\nmapped: with store.codec none"
    notes = (note,) if "loaded" in ways else ()
    return DisplayTable([("part", "text"), *columns("bytes", *ways)], rows, "training_memory", title, notes)


def sizes_table(forecast: Forecast) -> DisplayTable:
    """Memory of each model size, and which of them train on a machine of 8 GB."""
    rows = []
    for preset in get_args(type(forecast.section.train).model_fields["preset"].annotation):
        changes = {"preset": preset, **dict.fromkeys(forecast.section.train.sized_by)}
        train = forecast.section.train.model_copy(update=changes)
        other = replace(forecast, section=forecast.section.model_copy(update={"train": train}))
        try:
            model = other.model
        except ParamsError:  # not a size for this data: the vocabulary alone is larger
            continue
        row = {"8 GB": _verdict(other), "preset": preset, "parameters": model.parameters}
        rows.append(row | {"states": model.states, "steps": model.activations} | other.total)
    names: list[tuple[str, Kind]] = [("8 GB", "text"), ("preset", "text"), ("parameters", "count")]
    names += columns("bytes", "states", "steps", *(way for way in forecast.data if way != "mapped"))
    notes = (
        "states: weights, gradients, optimizer; steps: activations; last: in all;",
        "micro: fits with this micro_batch in machine.yaml",
    )
    title = f"model sizes, and whether training fits {SHARE:.0%} of {format_bytes(SMALL)} of memory"
    return DisplayTable(names, rows, "model_sizes", title, notes)


def _verdict(forecast: Forecast) -> str:
    """Whether a size fits, or the ``micro_batch`` with which it does: activations grow with it, unless it is whole."""
    model, lacking = forecast.model, forecast.least - int(SHARE * SMALL)
    if lacking <= 0:
        return "fits"
    fewer = 0 if model.whole else int(model.samples * (1 - lacking / (forecast.ranks * model.activations)))
    return f"micro {1 << fewer.bit_length() - 1}" if fewer > 0 else "no"


def made_up_sample(schema: Schema, reading: Reading) -> tuple[Batch, SampleBytes]:
    """A batch of one sample of empty rows, and the bytes of its rows and tensors."""
    window = _window(reading)
    length = (window.length,) if window and window.length > 1 else ()
    given = [field for field in schema.rows if field.name in reading.fields]
    given += _columns(schema, _of_reading(reading))
    rows = {field.name: np.full((1, *length, *field.shape), field.fill, field.dtype) for field in given}
    return tensors_of_sample(rows, reading)


def loader_needs(
    schema: Schema,
    rows: int,
    sequences: int,
    reading: Reading,
    section: Any,
    *,
    threads: int,
    world: int = 1,
    balanced: tuple[int, int, int] | None = None,
    taken: Collection[str] = (),
) -> MemoryEstimate:
    """What the shuffled loader of one long sequence needs; a balanced entry lies in at most two chunks.

    The columns ``taken`` of so many ``sequences`` come with the samples.
    """
    layout, window = section.store.layout(), _window(reading)
    held = _values_bytes(schema, {*taken, *_of_reading(reading)})
    table = sequences * (8 + held) if held else 0
    fields, chunks = [field for field in schema.rows if field.name in reading.fields], -(-rows // layout.chunk_rows)
    phase, one_sequence = window is not None and bool(window.phase), (np.zeros(1, np.int64), np.array([rows]))
    windows = Windows(rows, window, phase=phase, sequences=lambda: one_sequence)
    sampler = PlainSampler(windows, layout.chunk_rows, 0, Shuffle(pool_blocks=section.train.pool_blocks))
    limits, size = sampler.limits(math.gcd(world, sampler.lanes)), section.train.batch_size
    if balanced:  # a pool is a batch
        size = math.prod(balanced)
        limits = replace(limits, access="recurring", samples=size, chunks=min(2 * balanced[0] * balanced[1], chunks))
    sample, chunk = made_up_sample(schema, reading)[1], layout.chunk_rows * sum(field.row_bytes for field in fields)
    pool_chunks = chunks if limits.chunks is None else limits.chunks
    sample = sample._replace(batch=sample.batch + _values_bytes(schema, taken))
    return MemoryEstimate(
        limits=limits,
        batches=sample.batches(-(-size // world), threads),
        chunk=chunk,
        chunks=chunks,
        split_tables=table_bytes(chunks, len(fields)) + table,
        split_opening=table + 16 * sequences,
        decoded_at_once=decoding_bytes(threads, chunk, chunks, pool_chunks, local=True),
        mappable=layout.codec == "none",
    )


def _of_reading(reading: Reading) -> Collection[str]:
    """Names of the columns of the sequences that the reading takes with the rows."""
    return reading.columns if isinstance(reading, OfSequences) else ()


def _columns(schema: Schema, names: Collection[str]) -> list[Field]:
    """Columns of the sequences; raises ParamsError for text."""
    fields = [field for field in schema.sequences if field.name in names]
    for field in fields:
        refuse_text(f"sequences/{field.name}", dtype_of(field))
    return fields


def _values_bytes(schema: Schema, names: Collection[str]) -> int:
    """Bytes of these columns' values of one sequence."""
    return sum(indexable(np.zeros((1, *field.shape), field.dtype)).nbytes for field in _columns(schema, names))


def _window(reading: Reading) -> Window | None:
    return Window(**reading.window) if isinstance(reading, Windowed) and reading.window else None
