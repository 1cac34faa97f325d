"""Convert one unit on any worker: the domain's converter, and the comparisons with its oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from outofcore.raw.unit import Unit, UnitResult, difference


@dataclass(frozen=True)
class Audited:
    """A domain's converter that also makes the comparisons which its results ask for."""

    convert: Callable[[Unit], UnitResult]

    def __call__(self, unit: Unit) -> UnitResult:
        """Convert a unit."""
        result = self.convert(unit)
        found = tuple(each for audit in result.audits if (each := difference(audit)))
        return replace(
            result,
            audits=(),
            audited=result.audited + len(result.audits),
            differences=(*result.differences, *found),
        )
