"""Convert one unit on any worker: the domain's converter, and what it raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outofcore.domains.domain import Divided, Domain
from outofcore.errors import OutOfCoreError, RawInputError
from outofcore.raw.unit import AuditRate, Reject, Unit, UnitResult

UNREADABLE = "unreadable"
"""Reason of a record at which a domain's converter raised an error."""


@dataclass(frozen=True)
class UnitConverter:
    """Converts units: an error costs the record that it is of."""

    convert: Callable[[Unit], UnitResult]
    divided: Divided | None

    def __call__(self, unit: Unit) -> UnitResult:
        """Convert a unit."""
        result = self._converted(unit)
        return replace(result, found=result.found + len(unit.rejects), rejects=(*result.rejects, *unit.rejects))

    def _converted(self, unit: Unit) -> UnitResult:
        try:
            return self.convert(unit)
        except (OutOfCoreError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the system, whatever the record
                raise
            why = f"the reader raised {type(error).__name__}: {' '.join(str(error).split())[:500]}"
            parts = self.divided(unit) if self.divided else None
            if parts is None:
                raise RawInputError(
                    f"{unit.name}, at byte {unit.offset:,}: {why}; leave the file out with match"
                ) from error
            if not parts:
                rejects = (Reject(reason=UNREADABLE, offset=unit.offset, detail=why),)
                return UnitResult(found=1, rows={}, sequences={}, keys=np.zeros((0, 16), np.uint8), rejects=rejects)
            index = {place: number for number, place in enumerate(unit.places)}
            return _joined(
                [_of_whole(self._converted(part), [index[place] for place in part.places]) for part in parts]
            )


def unit_converter(domain: Domain, section: Any, rate: AuditRate) -> UnitConverter:
    """The converter of a domain."""
    return UnitConverter(domain.converter(section, rate), domain.divided(section))


def _of_whole(result: UnitResult, files: Sequence[int]) -> UnitResult:
    """The result of a part of a unit, with ``files`` of that unit."""
    rejects = tuple(replace(reject, file=files[reject.file]) for reject in result.rejects)
    return replace(result, file=np.array(files, np.int64)[result.places], rejects=rejects)


def _joined(results: Sequence[UnitResult]) -> UnitResult:
    """The results of the parts of a unit as that of the unit."""
    stored = [result for result in results if len(result.keys)] or results[:1]  # nothing was converted of the others
    names = dict.fromkeys(name for result in stored for name in result.stored_counts)
    splits = [result.split for result in stored if result.split is not None]
    return UnitResult(
        found=sum(result.found for result in results),
        rows=_columns([result.rows for result in stored]),
        sequences=_columns([result.sequences for result in stored]),
        keys=np.concatenate([result.keys for result in stored]),
        file=np.concatenate([result.places for result in stored]),
        split=np.concatenate(splits) if splits else None,
        rejects=tuple(reject for result in results for reject in result.rejects),
        part=next((result.part for result in results if result.part), ""),
        unusual=sum(result.unusual for result in results),
        counts=sum((Counter(result.counts) for result in results), Counter[str]()),
        stored_counts={
            name: np.concatenate([result.stored_counts.get(name, 0 * result.places) for result in stored])
            for name in names
        },
        audited=sum(result.audited for result in results),
        differences=tuple(difference for result in results for difference in result.differences),
    )


def _columns(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Columns one after the other."""
    return {name: np.concatenate([columns[name] for columns in results]) for name in results[0]}
