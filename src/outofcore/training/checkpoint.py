"""Everything a run needs to resume exactly: weights, optimizer, the loader's position, the curves so far."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor, nn

from outofcore.errors import StateError
from outofcore.system.durable import WorkFolder, remove_unfinished, replacing, writing
from outofcore.system.failures import NamedFile, raise_if_of_system
from outofcore.training.ranks import refuse_other_steps, this_rank

VERSION = 4
_log = logging.getLogger(__name__)


@dataclass
class Progress:
    step: int = 0  # the last one made, of the loader's
    # device, ranks and micro-batch of each process that made steps, with the step after which it began
    processes: list[dict[str, Any]] = field(default_factory=list)
    loader: dict[str, Any] | None = None  # the training loader's state after it; None at both ends of an epoch
    # rows of the curves: step and metrics by name
    history: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    loss_sum: float = 0.0  # since the last row of the curves
    loss_count: float = 0.0  # its count
    validated: int = -1  # step of the last validation, -1 before the first
    sums: dict[str, Tensor] = field(default_factory=dict)  # of the last validation

    def begin(self, process: Mapping[str, Any]) -> None:
        """Record the process that makes the next steps, unless it is as the one before."""
        self.processes = [known for known in self.processes if known["step"] < self.step]
        if not self.processes or {**self.processes[-1], **process} != self.processes[-1]:
            self.processes.append({"step": self.step, **process})

    def micro_batch(self) -> int:
        """That of the next step."""
        return int(next(known for known in reversed(self.processes) if known["step"] <= self.step)["micro_batch"])


@dataclass(frozen=True)
class Checkpoint:
    """A run as saved on the disk."""

    identity: str  # params and store: a different identity is a different run
    code: dict[str, str]  # versions, and the digest of the code that trains: losses of two are no curve
    model: dict[str, Any]  # state dict
    optimizer: dict[str, Any]  # state dict
    progress: Progress

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        content = {"version": VERSION, **vars(self), "progress": vars(self.progress)}
        write_saved(path, content)

    @classmethod
    def load(cls, path: Path) -> Checkpoint | None:
        """Read a checkpoint; None if there is none. Raises StateError if the file is no checkpoint of this version."""
        if not path.exists():
            return None
        message = (
            f"{path}: expected a checkpoint of version {VERSION} of this package, got a damaged or other file, or "
            f"another version; finish the run with the version that wrote it, or remove {path.parent} to train from "
            "the start"
        )
        content = read_saved(path, message)
        if content.pop("version", None) != VERSION:
            raise StateError(message)
        try:
            return cls(**{**content, "progress": Progress(**content["progress"])})
        except (KeyError, TypeError) as error:
            raise StateError(message) from error


def write_saved(path: Path, content: dict[str, Any]) -> None:
    """Replace a file by ``content``; torch would store the name of a path, that of a stream it cannot know."""
    with writing(path), replacing(path) as new, new.open("wb") as stream:
        try:
            torch.save(content, stream)
        except RuntimeError as error:  # of the end of the archive, which torch writes after a write that failed as well
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def read_saved(path: Path, message: str) -> dict[str, Any]:
    """The mapping that ``torch.save`` wrote; raises StateError with this message for a damaged or another file.

    Records take at most the bytes of the file: ``torch.save`` compresses none.
    """
    disk = NamedFile(str(path))
    with BufferedReader(disk) as stream:
        try:
            with ZipFile(stream) as archive:
                fits = sum(record.file_size for record in archive.infolist()) <= path.stat().st_size
                whole = fits and archive.testzip() is None  # torch does not compare checksums
            stream.seek(0)
            content = torch.load(stream, map_location="cpu", weights_only=True) if whole else None
        except Exception as error:  # of any type: bits that changed may mean anything to torch
            if disk.trouble is not None:
                raise disk.trouble from error
            raise_if_of_system(error)
            raise StateError(message) from error
    if not isinstance(content, dict):
        raise StateError(message)
    return content


class Saver:
    """Saves a run of this identity and code, on the first rank, when ``seconds`` have passed."""

    def __init__(self, path: Path, identity: str, code: Mapping[str, str], seconds: float) -> None:
        self.identity, self._code = identity, dict(code)
        self._path = path
        self._work = WorkFolder(path.parent, f"{path.parent}: another training of this model runs; wait for its end")
        self._seconds = seconds
        self._saved_at = time.monotonic()

    def resume(self, task: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        """Load the checkpoint into the task and the optimizer; without one of this run, it begins.

        Raises StateError if ranks differ in the step at which they resume.
        """
        progress = self._load(task, optimizer)
        refuse_other_steps(progress.step, self._path.parent)
        return progress

    def _load(self, task: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        checkpoint = Checkpoint.load(self._path)
        if checkpoint is None:
            return Progress()
        other = "params or another store" if checkpoint.identity != self.identity else self._other_code(checkpoint.code)
        if other:
            _log.warning("the checkpoint in %s is of other %s; training begins anew", self._path.parent, other)
            return Progress()
        task.load_state_dict(checkpoint.model)
        optimizer.load_state_dict(checkpoint.optimizer)
        return checkpoint.progress

    def _other_code(self, saved: Mapping[str, str]) -> str:
        """Which versions differ from those of this run, or else "code" if that differs; "" if nothing does."""
        names = sorted(name for name in {**saved, **self._code} if saved.get(name) != self._code.get(name))
        versions = [f"{name} ({saved.get(name)}, here {self._code.get(name)})" for name in names if name != "code"]
        return ", ".join(versions or names)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other runs out of this run's folder; raises OutOfCoreError if one is there."""
        if this_rank().rank:
            yield
            return
        with self._work:
            remove_unfinished(self._path)
            yield

    def due(self) -> bool:
        return time.monotonic() - self._saved_at >= self._seconds

    def save(self, task: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
        """Write the checkpoint, unless the loss is not finite: every run that resumed from it would fail again."""
        if this_rank().rank == 0 and math.isfinite(progress.loss_sum):
            content = task.state_dict(), optimizer.state_dict(), progress
            Checkpoint(self.identity, self._code, *content).save(self._path)
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """Remove the checkpoint of a finished run."""
        with self._work:
            self._work.empty()
