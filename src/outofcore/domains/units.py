"""Convert one unit on any worker: the domain's converter, what it raises, and the comparisons with its oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.domain import Divided, Domain
from outofcore.errors import OutOfCoreError, RawInputError
from outofcore.raw.unit import AuditRate, Reject, Unit, UnitResult, difference

UNREADABLE = "unreadable"
"""Reason of a record at which a domain's converter raised an error."""


@dataclass(frozen=True)
class UnitConverter:
    """Converts units: an error costs the record that it is of, and the oracle reads what the result asks for."""

    convert: Callable[[Unit], UnitResult]
    divided: Divided | None

    def __call__(self, unit: Unit) -> UnitResult:
        """Convert a unit."""
        result = self._converted(unit)
        differences = tuple(filter(None, map(difference, result.audits)))
        return replace(
            result,
            found=result.found + len(unit.rejects),
            rejects=(*result.rejects, *unit.rejects),
            audits=(),
            audited=result.audited + len(result.audits),
            differences=(*result.differences, *differences),
        )

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
            whole = [_of_whole(self._converted(part), [index[place] for place in part.places]) for part in parts]
            return reduce(_combined, whole)


def unit_converter(domain: Domain, section: Any, rate: AuditRate) -> UnitConverter:
    """The converter of a domain."""
    return UnitConverter(domain.converter(section, rate), domain.divided(section))


def _of_whole(result: UnitResult, files: Sequence[int]) -> UnitResult:
    """The result of a part of a unit, with ``files`` of that unit."""
    rejects = tuple(replace(reject, file=files[reject.file]) for reject in result.rejects)
    return replace(result, file=np.array(files, np.int64)[result.places], rejects=rejects)


def _combined(left: UnitResult, right: UnitResult) -> UnitResult:
    """The results of two parts as that of their unit."""
    return UnitResult(
        found=left.found + right.found,
        rows=_columns(left.rows, right.rows),
        sequences=_columns(left.sequences, right.sequences),
        keys=np.concatenate([left.keys, right.keys]),
        file=np.concatenate([left.places, right.places]),
        split=_splits(left, right),
        rejects=(*left.rejects, *right.rejects),
        part=left.part or right.part,
        unusual=left.unusual + right.unusual,
        counts=Counter(left.counts) + Counter(right.counts),
        stored_counts={
            name: np.concatenate([_count(left, name), _count(right, name)])
            for name in {**left.stored_counts, **right.stored_counts}
        },
        audits=(*left.audits, *right.audits),
        audited=left.audited + right.audited,
        differences=(*left.differences, *right.differences),
    )


def _splits(left: UnitResult, right: UnitResult) -> npt.NDArray[Any] | None:
    """The splits that a domain decides, None if it does not; a part without sequences decides none."""
    splits = [half.split for half in (left, right) if len(half.keys)]
    decided = [split for split in splits if split is not None]
    return np.concatenate(decided) if decided and len(decided) == len(splits) else None


def _count(result: UnitResult, name: str) -> npt.NDArray[Any]:
    """A count of each sequence, 0 where the unit has none of it."""
    return result.stored_counts.get(name, np.zeros(len(result.keys), np.int64))


def _columns(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Columns one after the other; a part of which nothing was converted has none."""
    if not left or not right:
        return dict(left or right)
    return {name: np.concatenate([left[name], right[name]]) for name in left}
