"""Join units of small files: to hand over and store a unit takes ten times as long as to convert a short record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from outofcore.raw.unit import Unit

MOST_FILES = 4096  # their names take memory as well


def gathered(
    units: Iterable[Unit],
    size: int,
    detail: Callable[[Sequence[Unit]], Mapping[str, Any]],
    joins: Callable[[Unit], bool] = lambda _: True,
) -> Iterator[Unit]:
    """The units in order, up to ``size`` bytes of consecutive ones that ``joins`` accepts joined to one.

    ``detail`` makes the detail of a joined unit from its parts.
    """
    return (_joined(group, detail) for group in grouped(units, size, joins))


def grouped(
    units: Iterable[Unit], size: int, joins: Callable[[Unit], bool] = lambda _: True
) -> Iterator[Sequence[Unit]]:
    """The units in order, in groups of up to ``size`` bytes; one that ``joins`` refuses is alone."""
    waiting: list[Unit] = []
    waiting_bytes = 0
    for unit in units:
        joined = joins(unit)
        if waiting and (not joined or waiting_bytes + len(unit.payload) > size or len(waiting) == MOST_FILES):
            yield waiting
            waiting, waiting_bytes = [], 0
        if joined:
            waiting.append(unit)
            waiting_bytes += len(unit.payload)
        else:
            yield [unit]
    if waiting:
        yield waiting


def side_by_side(parts: Sequence[Unit]) -> dict[str, Any]:
    """A detail from which :func:`parts_of` makes the parts again."""
    return {
        "parts": tuple(replace(part, payload=b"") for part in parts),
        "sizes": [len(part.payload) for part in parts],
    }


def parts_of(unit: Unit) -> list[Unit]:
    """The units that one was joined from; itself if it is of one file."""
    if "parts" not in unit.detail:
        return [unit]
    bounds = pairwise(accumulate(unit.detail["sizes"], initial=0))
    payloads = (unit.payload[start:end] for start, end in bounds)
    return [replace(part, payload=payload) for part, payload in zip(unit.detail["parts"], payloads, strict=True)]


def halves(unit: Unit, detail: Callable[[Sequence[Unit]], Mapping[str, Any]]) -> tuple[Unit, ...]:
    """The parts of a joined unit in two units, none if it is of one file."""
    parts = parts_of(unit)
    middle = len(parts) // 2
    return (_joined(parts[:middle], detail), _joined(parts[middle:], detail)) if middle else ()


def _joined(parts: Sequence[Unit], detail: Callable[[Sequence[Unit]], Mapping[str, Any]]) -> Unit:
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        payload=b"".join(part.payload for part in parts),
        detail=detail(parts),
        raw_bytes=sum(part.raw_bytes for part in parts),
        files=tuple((part.source, part.name) for part in parts),
    )
