"""Settings of this machine: workers, memory, device, disk; they affect no byte of a store and no order of samples.

A setting comes from the environment (``OUTOFCORE_WORKERS=2``), else from ``machine.yaml``, else it is measured or has a
default. ``machine.yaml`` belongs to one machine: Git ignores it, and no stage depends on it.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

from pydantic import BeforeValidator, Field, Strict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from outofcore.errors import ParamsError
from outofcore.settings.hardware import queue_workers, usable_cores, usable_memory
from outofcore.settings.residencies import ResidencyName
from outofcore.settings.sizes import EXPECTED_SIZE, format_bytes, parse_bytes
from outofcore.settings.yaml_text import parse_yaml

FILE: Final = "machine.yaml"
PREFIX: Final = "OUTOFCORE_"
# Room for the model, the interpreter and all other processes on the machine.
MEMORY_SHARE: Final = 0.5
GIB: Final = 2**30
# What every decompressor should support (RFC 8878).
LEAST_WINDOW: Final = 8 << 20
_SIZES: Final = {"memory", "decompression", "disk_reserve", "s3_cache_limit"}


def _folder(value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError
    try:
        return Path(value).expanduser()
    except RuntimeError as error:  # there is no such user
        raise ValueError from error


# The environment has text alone. A description is what an error says was expected.
_Whole = Annotated[int, Strict(), BeforeValidator(lambda value: int(value) if isinstance(value, str) else value)]
_Share = Annotated[float, Strict(), BeforeValidator(lambda value: float(value) if isinstance(value, str) else value)]
_Size = Annotated[int, BeforeValidator(parse_bytes)]
_Engine = Literal["threads", "dask"]


def _expects(text: str, **bounds: Any) -> Any:
    return Field(description=text, **bounds)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The settings of this machine."""

    # units converted at a time; by default the available cores
    workers: Annotated[_Whole, _expects("a whole number from 1", ge=1)] = 1
    # dask for the workers of a cluster
    engine: Annotated[_Engine, _expects(f"one of {', '.join(get_args(_Engine))}")] = "threads"
    # the scheduler's address; "" for a temporary local cluster
    dask: Annotated[
        str, _expects("the address of a Dask scheduler, such as tcp://host:8786", pattern=r"^(\w+://\S+:\d+)?$")
    ] = ""
    # concurrent jobs on this machine; each takes its share of cores and memory
    jobs: Annotated[_Whole, _expects("a whole number from 1", ge=1)] = 1
    # bytes that conversion and loading may hold
    memory: Annotated[_Size, _expects(EXPECTED_SIZE, ge=1)] = GIB
    # of rows during training; auto chooses by the memory budget
    residency: Annotated[ResidencyName, _expects(f"one of {', '.join(get_args(ResidencyName))}")] = "auto"
    device: Annotated[str, _expects("one of auto, cpu, cuda, cuda:N, mps", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = (
        "auto"
    )
    # samples per pass through the model
    micro_batch: Annotated[_Whole, _expects("a whole number from 0 (0: the whole batch)", ge=0)] = 0
    # most window or dictionary bytes of a compressed raw file; others are refused
    decompression: Annotated[_Size, _expects("at least 8MiB, such as 2GiB", ge=LEAST_WINDOW)] = 128 << 20
    # share added to every disk forecast
    disk_margin: Annotated[_Share, _expects("a share from 0 to 10, such as 0.2 for 20 %", ge=0, le=10)] = 0.2
    # bytes that stay free per filesystem, at most a twentieth of it
    disk_reserve: Annotated[_Size, _expects(EXPECTED_SIZE)] = GIB
    # folder for work in progress; None: next to the store, so that finishing is one rename
    scratch: Annotated[Path | None, BeforeValidator(_folder), _expects("the path of a folder")] = None
    # folder that keeps what is read of stores in object storage; None: nothing is kept
    s3_cache: Annotated[Path | None, BeforeValidator(_folder), _expects("the path of a folder")] = None
    # most bytes in that folder, of all stores together
    s3_cache_limit: Annotated[_Size, _expects(EXPECTED_SIZE)] = 50 * GIB
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)  # where each setting came from, in words
    stated: frozenset[str] = field(default=frozenset(), compare=False)  # the settings that are not measured or default

    @property
    def share(self) -> str:
        """A line on the share of the machine that this job has; "" if it is the only one."""
        own = f"{self.workers} worker{'s' * (self.workers > 1)}, memory {format_bytes(self.memory)}"
        return f"one of {self.jobs} jobs on this machine: {own}" if self.jobs > 1 else ""

    def described(self) -> list[tuple[str, str, str]]:
        """Name, value and origin of every setting, for display."""
        rows = []
        for name in SETTINGS:
            value = getattr(self, name)
            shown = format_bytes(value) if name in _SIZES else str(value)
            if value is None:
                shown = {"scratch": "next to the store", "s3_cache": "none"}[name]
            rows.append((name, shown, self.origins.get(name, "default")))
        return rows


_ADAPTER: Final = TypeAdapter(Machine)
_EXPECTED: Final = {
    name: next(note.description for note in hint.__metadata__ if isinstance(note, FieldInfo))
    for name, hint in get_type_hints(Machine, include_extras=True).items()
    if name not in ("origins", "stated")
}
SETTINGS: Final = tuple(_EXPECTED)


def load_machine(folder: str | Path = ".", environment: Mapping[str, str] | None = None) -> Machine:
    """Settings for a project folder: environment over ``machine.yaml`` over measured values.

    In a workspace of ``dvc exp run``, the file of the original project is read. Raises ParamsError for an unknown
    setting or an invalid value.
    """
    environment = os.environ if environment is None else environment
    path = machine_file(Path(folder))
    values = _read(path) if path else {}
    origins = dict.fromkeys(values, str(path))
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in SETTINGS:
            values[name], origins[name] = text, variable
        elif close := difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.8):
            raise ParamsError(f"{variable}: no such setting; did you mean {PREFIX}{close[0].upper()}?")
    try:
        given = _ADAPTER.validate_python(values)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        where = f"{path}: {name}" if origins[name] == str(path) else origins[name]
        raise ParamsError(f"{where}: expected {_EXPECTED[name]}, got {values[name]!r}") from error
    measured: dict[str, Any] = {}
    if "jobs" not in values and (workers := queue_workers()) > 1:
        given, origins["jobs"] = replace(given, jobs=workers), "measured: workers of the queue of DVC"
    jobs, among = given.jobs, f", for one of {given.jobs} jobs" if given.jobs > 1 else ""
    if "workers" not in values:
        cores = usable_cores()
        measured["workers"], origins["workers"] = max(1, cores.value // jobs), f"measured: {cores.how}{among}"
    if "memory" not in values:
        memory = usable_memory()
        measured["memory"] = math.floor(memory.value * MEMORY_SHARE) // jobs
        how = f"measured: {MEMORY_SHARE:.0%} of {format_bytes(memory.value)} {memory.how}"
        origins["memory"] = f"{how}{among}"
    if jobs > 1 and "disk_margin" not in values:
        # Free space cannot be divided in advance: each job requires what all of them may write.
        measured["disk_margin"] = (1 + given.disk_margin) * jobs - 1
        origins["disk_margin"] = f"room for {jobs} jobs, and {given.disk_margin:.0%} more"
    return replace(given, **measured, origins=origins, stated=frozenset(values))


def machine_file(folder: Path) -> Path | None:
    """The ``machine.yaml`` that applies to a folder, or None."""
    return next((path for owner in (folder, *_owners(folder.absolute())) if (path := owner / FILE).is_file()), None)


@cache
def _owners(folder: Path) -> list[Path]:
    """The projects of which a folder is that of an experiment; found once, as each .xz file asks."""
    return [parent.parents[2] for parent in folder.resolve().parents if parent.parts[-3:] == (".dvc", "tmp", "exps")]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ParamsError(f"{path}: expected YAML, {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ParamsError(f"{path}: expected settings by name, such as 'workers: 2', got {type(content).__name__}")
    for name in content:
        if name not in SETTINGS:
            close = difflib.get_close_matches(str(name), SETTINGS, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise ParamsError(f"{path}: no setting {name!r}; {hint}there are {', '.join(SETTINGS)}")
    return content
