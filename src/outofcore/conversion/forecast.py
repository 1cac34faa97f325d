"""What a conversion will take, known before it writes: bytes on disk, memory and time, from a sample of its input.

The run and the plan call the same function: what a plan says is what the run checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outofcore.conversion.estimate import AHEAD, Estimate, estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.journal import work_folder
from outofcore.domains.domain import Domain
from outofcore.errors import BudgetError
from outofcore.raw.files import RawFile
from outofcore.settings.machine import Machine
from outofcore.settings.sizes import format_bytes
from outofcore.space.forecast import Need, store_needs
from outofcore.space.links import Commit
from outofcore.system.peak_memory import MemoryWatch

# Of what only the conversion itself holds: the oracle, audited records, shards that are being finished.
BEYOND_SAMPLE = 128 << 20
# Of a key that is remembered to find duplicates, while runs of keys are merged.
SEEN_KEY_BYTES = 48
# By which the peak of one sample differs from run to run; a figure that is named has to suffice in the next.
_VARIES = 32 << 20
_ROUNDED = 10**7


@dataclass(frozen=True)
class ConversionForecast:
    """What a conversion will take; memory is counted with its workers."""

    estimate: Estimate  # of the store
    needs: tuple[Need, ...]  # on disk
    held_bytes: int = 0  # by this process before the sample was converted
    memory_bytes: int = 0  # beyond these, with as many units in flight as for the sample

    def units_ahead(self, name: str, budget: int, *, refuse: bool) -> int:
        """How many units may be in flight.

        Raises BudgetError, if it may ``refuse``, where fewer than those of the sample do not fit.
        """
        least = self.held_bytes + self.memory_bytes
        if refuse and least > budget:
            figure = -(-(least + _VARIES) // _ROUNDED) * _ROUNDED
            raise BudgetError(
                f"{name}: memory is {format_bytes(budget)}, and this conversion takes up to {format_bytes(figure)}; "
                f"set memory in machine.yaml, or OUTOFCORE_MEMORY, to {figure // 10**6}MB, or use fewer workers"
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
) -> ConversionForecast:
    """Convert a sample of the input in memory; ``commit`` is DVC's handling of the store, None without DVC.

    ``replaced`` are bytes of an earlier store that are freed before the first write.
    """
    executor_of = open_executor(machine.engine, machine.workers, address=machine.dask, files=files, domain=domain.name)
    with MemoryWatch(interval=0.05) as watch, executor_of as executor:
        held = watch.peak_bytes
        expected = estimate(domain, section, files, executor)
    keys = expected.sequences if getattr(section.filters, "duplicates", "keep") != "keep" else 0
    return ConversionForecast(
        estimate=expected,
        needs=store_needs(store, expected.store_bytes, commit, work_folder(store, machine.scratch), replaced),
        held_bytes=held,
        memory_bytes=watch.peak_bytes - held + BEYOND_SAMPLE + SEEN_KEY_BYTES * keys,
    )
