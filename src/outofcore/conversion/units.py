"""Convert one unit on any worker: the domain's converter, what it raises, and the comparisons with its oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outofcore.domains.domain import Domain
from outofcore.errors import OutOfCoreError, RawInputError
from outofcore.raw.cutting import LastStart, halves
from outofcore.raw.unit import AuditRate, Reject, Unit, UnitResult, difference

UNREADABLE = "unreadable"
"""Reason of a record at which a domain's converter raised an error."""


@dataclass(frozen=True)
class UnitConverter:
    """Converts units: an error costs the record that it is of, and the oracle reads what the result asks for."""

    convert: Callable[[Unit], UnitResult]
    last_start: LastStart | None

    def __call__(self, unit: Unit) -> UnitResult:
        """Convert a unit."""
        result = self._converted(unit)
        found = tuple(each for audit in result.audits if (each := difference(audit)))
        return replace(
            result,
            found=result.found + len(unit.rejects),
            rejects=(*result.rejects, *unit.rejects),
            audits=(),
            audited=result.audited + len(result.audits),
            differences=(*result.differences, *found),
        )

    def _converted(self, unit: Unit) -> UnitResult:
        try:
            return self.convert(unit)
        except (OutOfCoreError, MemoryError):
            raise
        except Exception as error:
            why = f"the reader raised {type(error).__name__}: {' '.join(str(error).split())[:500]}"
            if not unit.stretches or self.last_start is None:
                message = f"{unit.name}, at byte {unit.offset:,}: {why}; leave the file out with match"
                raise RawInputError(message) from error
            parts = halves(unit, self.last_start)
            if parts is None:
                rejects = (Reject(reason=UNREADABLE, offset=unit.stretches[0].offset, detail=why),)
                return UnitResult(found=1, rows={}, sequences={}, keys=np.zeros((0, 16), np.uint8), rejects=rejects)
            left, right = map(self._converted, parts)
            return _together(left, right, len(parts[0].stretches) if len(unit.stretches) > 1 else 0)


def unit_converter(domain: Domain, section: Any, rate: AuditRate) -> UnitConverter:
    """The converter of a domain."""
    return UnitConverter(domain.converter(section, rate), domain.last_start)


def _together(left: UnitResult, right: UnitResult, files: int) -> UnitResult:
    """The results of two halves as that of their unit; the files of the right one count from ``files``."""
    return UnitResult(
        found=left.found + right.found,
        rows=_columns(left.rows, right.rows),
        sequences=_columns(left.sequences, right.sequences),
        keys=np.concatenate([left.keys, right.keys]),
        file=np.concatenate([left.places, right.places + files]),
        split=None if left.split is None or right.split is None else np.concatenate([left.split, right.split]),
        rejects=(*left.rejects, *(replace(each, file=each.file + files) for each in right.rejects)),
        part=left.part or right.part,
        unusual=left.unusual + right.unusual,
        counts=Counter(left.counts) + Counter(right.counts),
        stored_counts=_columns(left.stored_counts, right.stored_counts),
        audits=(*left.audits, *right.audits),
        audited=left.audited + right.audited,
        differences=(*left.differences, *right.differences),
    )


def _columns(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Columns one after the other; a half of which nothing was converted has none."""
    if not left or not right:
        return dict(left or right)
    return {name: np.concatenate([left[name], right[name]]) for name in left}
