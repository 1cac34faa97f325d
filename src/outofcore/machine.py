"""Settings of this machine: workers, memory, device, disk; they affect no byte of a store and no order of samples.

A setting comes from the environment (``OUTOFCORE_WORKERS=2``), else from ``machine.yaml``, else it is measured or has a
default. ``machine.yaml`` belongs to one machine: Git ignores it, and no stage depends on it.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from outofcore.errors import ParamsError
from outofcore.hardware import Measured, usable_cores, usable_memory
from outofcore.sizes import EXPECTED_SIZE, format_bytes, parse_bytes

FILE: Final = "machine.yaml"
PREFIX: Final = "OUTOFCORE_"
ENGINES: Final = ("threads", "processes", "dask")
RESIDENCIES: Final = ("auto", "ram", "mapped", "hybrid", "streamed", "device")
# Room for the model, the interpreter and all other processes on the machine.
MEMORY_SHARE: Final = 0.5
GIB: Final = 2**30
# What every decompressor should support (RFC 8878).
LEAST_WINDOW: Final = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The settings of this machine."""

    workers: int = 1  # units converted at a time; by default the available cores
    engine: str = "threads"  # threads, processes, or dask for the workers of a cluster
    dask: str = ""  # the scheduler's address, tcp://host:8786; "" for a temporary local cluster
    jobs: int = 1  # concurrent jobs on this machine; each takes its share of cores and memory
    memory: int = GIB  # bytes that conversion and loading may hold
    residency: str = "auto"  # of rows during training; auto chooses by the memory budget
    device: str = "auto"  # auto, cpu, cuda, cuda:1, mps
    micro_batch: int = 0  # samples per pass through the model; 0 for the whole batch
    decompression: int = 128 << 20  # most window or dictionary bytes of a compressed raw file; others are refused
    disk_margin: float = 0.2  # share added to every disk forecast
    disk_reserve: int = GIB  # bytes that stay free per filesystem, at most a twentieth of it
    scratch: Path | None = None  # folder for work in progress; None: next to the store, so that finishing is one rename
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)  # where each setting came from

    def described(self) -> list[tuple[str, str, str]]:
        """Name, value and origin of every setting, for display."""
        rows = []
        for name in SETTINGS:
            value = getattr(self, name)
            shown = format_bytes(value) if name in {"memory", "decompression", "disk_reserve"} else str(value)
            if name == "scratch" and value is None:
                shown = "beside the store"
            rows.append((name, shown, self.origins.get(name, "default")))
        return rows


def load_machine(folder: str | Path = ".", environment: Mapping[str, str] | None = None) -> Machine:
    """Settings for a project folder: environment over ``machine.yaml`` over measured values.

    In a workspace of ``dvc exp run``, the file of the original project is read. Raises ParamsError for an unknown
    setting or an invalid value.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    path = machine_file(Path(folder))
    for name, value in (_read(path) if path else {}).items():
        values[name] = _parsed(name, value, f"{path}: {name}")
        origins[name] = str(path)
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in SETTINGS:
            values[name] = _parsed(name, text, variable)
            origins[name] = variable
        elif close := difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.8):
            message = f"{variable}: no such setting; did you mean {PREFIX}{close[0].upper()}?"
            raise ParamsError(message)
    jobs = values.get("jobs", 1)
    among = f", for one of {jobs} jobs" if jobs > 1 else ""
    if "workers" not in values:
        cores = usable_cores()
        values["workers"], origins["workers"] = max(1, cores.value // jobs), f"measured: {cores.how}{among}"
    if "memory" not in values:
        budget, how = _share_of(usable_memory())
        values["memory"], origins["memory"] = budget // jobs, f"{how}{among}"
    if jobs > 1 and "disk_margin" not in values:
        # Free space cannot be divided in advance: each job requires what all of them may write.
        values["disk_margin"] = (1 + Machine.disk_margin) * jobs - 1
        origins["disk_margin"] = f"room for {jobs} jobs, and {Machine.disk_margin:.0%} more"
    return Machine(**values, origins=origins)


def machine_file(folder: Path) -> Path | None:
    """The ``machine.yaml`` that applies to a folder, or None."""
    owners = [parent.parents[2] for parent in folder.resolve().parents if parent.parts[-3:] == (".dvc", "tmp", "exps")]
    return next((path for owner in (folder, *owners) if (path := owner / FILE).is_file()), None)


def _share_of(memory: Measured) -> tuple[int, str]:
    budget = math.floor(memory.value * MEMORY_SHARE)
    return budget, f"measured: {MEMORY_SHARE:.0%} of {format_bytes(memory.value)} {memory.how}"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        message = f"{path}: expected YAML, {' '.join(str(error).split())}"
        raise ParamsError(message) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        message = f"{path}: expected settings by name, such as 'workers: 2', got {content!r}"
        raise ParamsError(message)
    for name in content:
        if name not in SETTINGS:
            close = difflib.get_close_matches(str(name), SETTINGS, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            message = f"{path}: no setting {name!r}; {hint}there are {', '.join(SETTINGS)}"
            raise ParamsError(message)
    return content


def _parsed(name: str, value: Any, where: str) -> Any:
    setting = SETTINGS[name]
    try:
        return setting.parse(value)
    except (ValueError, TypeError) as error:
        message = f"{where}: expected {setting.expected}, got {value!r}"
        raise ParamsError(message) from error


@dataclass(frozen=True)
class _Setting:
    expected: str
    parse: Callable[[Any], Any]


def _count(least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = int(value) if isinstance(value, str) else value
        if type(number) is not int or number < least:
            raise ValueError
        return number

    return parse


def _one_of(*accepted: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in accepted:
            raise ValueError
        return str(value)

    return parse


def _share(value: Any) -> float:
    number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 10:
        raise ValueError
    return number


def _device(value: Any) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", str(value)):
        raise ValueError
    return str(value)


def _some_bytes(value: Any) -> int:
    number = parse_bytes(value)
    if number < 1:
        raise ValueError
    return number


def _window(value: Any) -> int:
    number = parse_bytes(value)
    if number < LEAST_WINDOW:
        raise ValueError
    return number


def _address(value: Any) -> str:
    if not re.fullmatch(r"(\w+://\S+:\d+)?", str(value)):
        raise ValueError
    return str(value)


def _folder(value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError
    return Path(value).expanduser()


SETTINGS: Final[Mapping[str, _Setting]] = {
    "workers": _Setting("a whole number from 1", _count(1)),
    "engine": _Setting(f"one of {', '.join(ENGINES)}", _one_of(*ENGINES)),
    "dask": _Setting("the address of a Dask scheduler, such as tcp://host:8786", _address),
    "jobs": _Setting("a whole number from 1", _count(1)),
    "memory": _Setting(EXPECTED_SIZE, _some_bytes),
    "residency": _Setting(f"one of {', '.join(RESIDENCIES)}", _one_of(*RESIDENCIES)),
    "device": _Setting("one of auto, cpu, cuda, cuda:N, mps", _device),
    "micro_batch": _Setting("a whole number from 0 (0: the whole batch)", _count(0)),
    "decompression": _Setting("at least 8MiB, such as 2GiB", _window),
    "disk_margin": _Setting("a share from 0 to 10, such as 0.2 for 20 %", _share),
    "disk_reserve": _Setting(EXPECTED_SIZE, parse_bytes),
    "scratch": _Setting("the path of a folder", _folder),
}
