"""A conversion as a stage makes it, from raw files to a sealed store, with its time and memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outofcore.conversion.estimate import estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.domain import Domain
from outofcore.raw.files import RawFile
from outofcore.training.memory import MemoryWatch


@dataclass(frozen=True)
class Converted:
    """What came of a conversion.

    Attributes
    ----------
    figures
        As in ``metrics/<domain>/convert.json``.
    seconds
        From the estimate to the seal.
    memory
        What the process and its children held at most.
    """

    figures: dict[str, Any]
    seconds: float
    memory: MemoryWatch

    @property
    def rows(self) -> int:
        """Rows of all splits."""
        return sum(self.figures["rows"].values())


def convert_files(domain: Domain, section: Any, files: Sequence[RawFile], store: Path, workers: int = 2) -> Converted:
    """Estimate and convert in threads; disks are not asked, and rejects are listed next to the store."""
    conversion = Conversion(domain, section, files, store, store.with_suffix(".csv"))
    started = time.perf_counter()
    with MemoryWatch(interval=0.1) as memory:
        with open_executor("threads", workers) as executor:
            forecast = estimate(domain, section, files, executor)
        outcome = conversion.run(
            forecast,
            executor=open_executor("threads", workers),
            workers=workers,
            watch=lambda _: None,
        )
    return Converted(outcome.figures, time.perf_counter() - started, memory)
