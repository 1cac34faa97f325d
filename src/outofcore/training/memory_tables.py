"""Tables of ``outofcore plan`` about training: what it holds by part, and which model sizes fit a small machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

from outofcore.domains.planning import LoaderBytes
from outofcore.domains.sections import TrainSection
from outofcore.domains.streaming import RAW, Streaming
from outofcore.domains.task import Batch, Task
from outofcore.errors import ParamsError
from outofcore.inspect.table import Kind, Table, columns
from outofcore.machine import Machine
from outofcore.sizes import format_bytes
from outofcore.store.schema import Schema
from outofcore.training.prediction import (
    ModelMemory,
    loader_needs,
    made_up_sample,
    model_memory,
    samples_of,
    seconds_per_sample,
)

PARTS = ("model", "gradients", "optimizer", "activations")
LAST = "last run"

MEASURED_MODEL = 100 * 10**6
"""Bytes of weights up to which steps are timed."""
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
    process: int  # bytes of the interpreter and its libraries

    @cached_property
    def model(self) -> ModelMemory:
        """Of the model and a step."""
        return self.model_of(self.section)

    def model_of(self, section: Any) -> ModelMemory:
        """The same with other settings of training."""
        make, sample = self._step(section)
        return model_memory(make, sample, section.train, self.machine.micro_batch)

    @property
    def epoch_seconds(self) -> float | None:
        """Of arithmetic on this processor, measured now; None for a large model, or an unknown number of samples."""
        if self.model.model > MEASURED_MODEL or not self.rows:
            return None
        splits, section = self.section.splits, self.section
        samples = samples_of(self._reading(section), round(self.rows * (1 - splits.val - splits.test)))
        return samples * seconds_per_sample(*self._step(section), section.train)

    def _step(self, section: Any) -> tuple[Callable[[], Task], Batch]:
        """The task and a sample of the part with the largest rows, which decides: a batch is of one part."""
        parts = sorted(self.schemas, key=lambda part: -sum(field.row_bytes for field in self.schemas[part].rows))
        schemas = {part: self.schemas[part] for part in parts}
        sample, _ = made_up_sample(schemas[parts[0]], self._reading(section))
        return lambda: self.domain.planned_task()(section, schemas), sample

    @cached_property
    def data(self) -> dict[str, int]:
        """Of the loaders or streams of both splits, by the way of reading."""
        ways = {}
        if isinstance(self.domain, Streaming):
            ways[RAW] = 2 * self.domain.stream_bytes(self.section, self.machine.workers)
            if self.domain.streamed(self.section):
                return ways
        splits = self.section.splits
        shares = [share for share in (1 - splits.val - splits.test, splits.val) if share]
        rows = [dict.fromkeys(self.schemas, round(self.rows * share / len(self.schemas))) for share in shares]
        held = self.loaders_of(self.section, self.schemas, rows)
        return {"loaded": held.ram, "streamed": held.streamed, "mapped": held.mapped, **ways}

    def loaders_of(
        self, section: Any, schemas: Mapping[str, Schema], splits: Sequence[Mapping[str, int]]
    ) -> LoaderBytes:
        """Of the loaders of splits with these rows by part, for other settings and schemas."""
        reading, layout = self._reading(section), section.store.layout()
        needs = [
            loader_needs(schemas[part], rows, reading, section.train, layout, self.machine.workers)
            for split in splits
            for part, rows in split.items()
        ]
        return LoaderBytes(*(sum(getattr(each, name) for each in needs) for name in ("whole", "streamed", "fixed")))

    def takes(self, section: Any, micro_batch: int) -> dict[str, int]:
        """Of the whole process with other settings, by the way of reading."""
        other = replace(self, section=section, machine=replace(self.machine, micro_batch=micro_batch))
        return other.total(other.model)

    def total(self, model: ModelMemory) -> dict[str, int]:
        """Of the whole process with a model, by the way of reading."""
        return {way: self.process + model.total + size for way, size in self.data.items()}

    def least(self, model: ModelMemory) -> int:
        """The least of them that needs no other store."""
        return min(size for way, size in self.total(model).items() if way != "mapped")

    def _reading(self, section: Any) -> Any:
        attributes = next(iter(self.schemas.values())).attributes
        return self.domain.reading({"params": section.model_dump(mode="json"), **attributes}, section)


def parts_table(found: Forecast, memory: int, last: Mapping[str, Any]) -> Table:
    """What training holds, part by part, for each way of reading, with the peak of the last run."""
    model, ways, least = found.model, found.data, found.least(found.model)
    rows = [
        {"part": "data", **ways},
        *({"part": part, **dict.fromkeys(ways, getattr(model, part))} for part in PARTS),
        {"part": "interpreter and libraries", **dict.fromkeys(ways, found.process)},
        {"part": "in all", **found.total(model), LAST: last.get("peak_memory_bytes")},
        {
            "part": "of it on an accelerator",
            **dict.fromkeys(ways, model.total),
            LAST: last.get("peak_device_bytes") or None,
        },
    ]
    train, splits = found.section.train, found.section.splits
    to_train = round(found.rows * (1 - splits.val - splits.test))
    samples = min(found.machine.micro_batch or train.batch_size, train.batch_size)
    title = (
        f"training {'fits' if least <= memory else 'does NOT fit'}: "
        f"at least {format_bytes(least)} of {format_bytes(memory)} of memory\n"
        f"{train.preset} model, {model.parameters:,} parameters, {samples:,} samples at a time"
        f"{f', {to_train:,} {found.domain.row}s' if to_train else ''}"
    )
    if (seconds := found.epoch_seconds) is not None:
        title += f"\nan epoch is about {_duration(seconds)} of arithmetic on this processor"
    names: list[tuple[str, Kind]] = [("part", "text"), *columns("bytes", *ways, LAST)]
    return Table(names, rows, "training_memory", title, _notes(found, last))


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 1):.0f} seconds"


def _notes(found: Forecast, last: Mapping[str, Any]) -> tuple[str, ...]:
    notes = []
    if "loaded" in found.data:
        notes.append(
            "loaded: all rows in memory; streamed: at least, the loader fills its budget;\n"
            "mapped: with store.codec none"
        )
    if "peak_memory_bytes" in last:
        other = "" if last.get("parameters") == found.model.parameters else ", another model than this one"
        ran = f"last run: {last.get('parameters', 0):,} parameters{other}, {last.get('steps', 0):,} steps on "
        notes.append(ran + f"{last.get('device')}, micro-batch {last.get('micro_batch') or 'whole'}")
    return tuple(notes)


def sizes_table(found: Forecast) -> Table:
    """Memory of each model size, and which of them train on a machine of 8 GB."""
    rows = []
    for preset in get_args(TrainSection.model_fields["preset"].annotation):
        changes = {"preset": preset} | ({"parameters": None} if hasattr(found.section.train, "parameters") else {})
        train = found.section.train.model_copy(update=changes)
        try:
            model = found.model_of(found.section.model_copy(update={"train": train}))
        except ParamsError:  # not a size for this data: the vocabulary alone is larger
            continue
        row = {"8 GB": _verdict(found, model), "preset": preset, "parameters": model.parameters}
        rows.append(row | {"states": model.states, "steps": model.activations} | found.total(model))
    names: list[tuple[str, Kind]] = [("8 GB", "text"), ("preset", "text"), ("parameters", "count")]
    names += columns("bytes", "states", "steps", *(way for way in found.data if way != "mapped"))
    notes = (
        "states: weights, gradients, optimizer; steps: activations; last: in all;",
        "micro: fits with this micro_batch in machine.yaml",
    )
    title = f"model sizes, and whether training fits {SHARE:.0%} of {format_bytes(SMALL)} of memory"
    return Table(names, rows, "model_sizes", title, notes)


def _verdict(found: Forecast, model: ModelMemory) -> str:
    """Whether a size fits, or the ``micro_batch`` with which it does: activations grow with it."""
    lacking = found.least(model) - int(SHARE * SMALL)
    if lacking <= 0:
        return "fits"
    train = found.section.train
    count = min(found.machine.micro_batch or train.batch_size, train.batch_size)
    fewer = int(count * (1 - lacking / model.activations))
    return f"micro {1 << fewer.bit_length() - 1}" if fewer > 0 else "no"
