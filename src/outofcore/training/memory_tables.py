"""Tables of ``outofcore plan`` about training: what it holds by part, and which model sizes fit a small machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, get_args

from outofcore.display.table import DisplayTable, Kind, columns
from outofcore.domains.planning import LoaderBytes
from outofcore.domains.streaming import RAW, Streaming
from outofcore.domains.task import Batch, Task
from outofcore.errors import ParamsError
from outofcore.loading.memory import MemoryEstimate
from outofcore.settings.machine import Machine
from outofcore.settings.sizes import format_bytes
from outofcore.store.schema import Schema
from outofcore.training.loaders import LOADERS
from outofcore.training.prediction import PROCESS_BYTES, ModelMemory, loader_needs, made_up_sample, model_memory

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
        """Of the model and a step."""
        make, sample = self._step()
        train = self.section.train
        own = train.model_copy(update={"batch_size": -(-train.batch_size // self.ranks)})
        return model_memory(make, sample, own, self.machine.micro_batch)

    def _step(self) -> tuple[Callable[[], Task], Batch]:
        """The task and a sample of the part with the largest rows, which decides: a batch is of one part."""
        parts = sorted(self.schemas, key=lambda part: -sum(field.row_bytes for field in self.schemas[part].rows))
        schemas = {part: self.schemas[part] for part in parts}
        sample, _ = made_up_sample(schemas[parts[0]], self._reading(self.section))
        return lambda: self.domain.planned_task()(self.section, schemas), sample

    @cached_property
    def data(self) -> dict[str, int]:
        """Of the loaders or streams of both splits in all ranks, by the way of reading."""
        ways = {}
        if isinstance(self.domain, Streaming):
            ways[RAW] = LOADERS * self.domain.stream_bytes(self.section, self.machine.workers)
            if self.domain.streamed(self.section):
                return ways
        loaders = self.loaders_of(self.section, self.schemas, self._splits)
        return {**loaders._asdict(), **ways}

    @property
    def least_of_a_loader(self) -> int:
        """Data of the larger of both loaders or streams in the chosen way of reading."""
        if self.way == RAW:
            return self.data[RAW] // LOADERS
        needs = self._needs(self.section, self.schemas, self._splits)
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
        residency = self.machine.residency
        return {"ram": "loaded", "mapped": "mapped"}.get(residency, "streamed")

    @property
    def _splits(self) -> list[dict[str, int]]:
        """Rows by part of the splits that training reads."""
        shares = [share for share in self.section.splits.expected[:2] if share]
        return [dict.fromkeys(self.schemas, round(self.rows * share / len(self.schemas))) for share in shares]

    def loaders_of(
        self, section: Any, schemas: Mapping[str, Schema], splits: Sequence[Mapping[str, int]]
    ) -> LoaderBytes:
        """Of the loaders of splits with these rows by part in all ranks, for other settings and schemas."""
        needs = [estimate for split in self._needs(section, schemas, splits) for estimate in split]
        return LoaderBytes(*(self.ranks * sum(map(attrgetter(name), needs)) for name in ESTIMATED.values()))

    def _needs(
        self, section: Any, schemas: Mapping[str, Schema], splits: Sequence[Mapping[str, int]]
    ) -> list[list[MemoryEstimate]]:
        """Of each part, by split; the first is that of training: balanced batches, and no columns."""
        layout, threads = section.store.layout(), self.machine.workers

        def needs(part: str, rows: int, *, first: bool) -> MemoryEstimate:
            schema, balanced = schemas[part], self.model.balanced if first else None
            columns = [field for field in schema.sequences if field.name in self.model.columns and not first]
            sequences = round(rows * self.sequences / self.rows) if self.rows else 0
            of_model = (self._reading(section), section.train, layout, threads, balanced, self.ranks)
            return loader_needs(schema, rows, *of_model, columns, sequences)

        return [
            [needs(part, rows, first=number == 0) for part, rows in split.items()]
            for number, split in enumerate(splits)
        ]

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

    def _reading(self, section: Any) -> Any:
        attributes = next(iter(self.schemas.values())).attributes
        return self.domain.reading({"params": section.model_dump(mode="json"), **attributes}, section)


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
    fits = data <= share and least <= usable
    return Fit(fits, least, usable, data, share, forecast.model.samples)


def parts_table(forecast: Forecast, fit: Fit) -> DisplayTable:
    """What training holds, part by part, for each way of reading."""
    model, ways = forecast.model, forecast.data
    rows = [
        {"part": "data", **ways},
        *({"part": part, **dict.fromkeys(ways, forecast.ranks * getattr(model, part))} for part in PARTS),
        {"part": "interpreter and libraries", **dict.fromkeys(ways, forecast.ranks * PROCESS_BYTES)},
        {"part": "in all", **forecast.total},
        {"part": "of it on an accelerator", **dict.fromkeys(ways, forecast.ranks * model.total)},
    ]
    train, to_train = forecast.section.train, round(forecast.rows * forecast.section.splits.expected[0])
    title = (
        f"{_outlook(fit, forecast.ranks)}\n"
        f"{train.preset} model, {model.parameters:,} parameters, {model.samples:,} samples at a time"
        f"{f' in each of {forecast.ranks} ranks' if forecast.ranks > 1 else ''}"
        f"{f', {to_train:,} {forecast.domain.row}s' if to_train else ''}"
    )
    note = "loaded: all rows in memory; streamed: at least, the loader fills its budget;\nmapped: with store.codec none"
    notes = (note,) if "loaded" in ways else ()
    return DisplayTable([("part", "text"), *columns("bytes", *ways)], rows, "training_memory", title, notes)


def _outlook(fit: Fit, ranks: int) -> str:
    if fit.loader_bytes > fit.loader_share_bytes:
        share = format_bytes(fit.loader_share_bytes)
        return (
            f"training does NOT fit: a loader takes at least {format_bytes(fit.loader_bytes)}, and gets {share}, "
            f"half of {'what a rank gets of ' if ranks > 1 else ''}'memory' in machine.yaml"
        )
    process = f"at least {format_bytes(fit.least_bytes)} of {format_bytes(fit.usable_bytes)} of memory"
    return f"training {'fits' if fit.fits else 'does NOT fit'}: {process}"


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
