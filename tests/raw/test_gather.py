"""Units are joined in order, up to a size and a number, and come apart again as they were."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.raw.gather import gathered, parts_of, side_by_side
from outofcore.raw.unit import Unit

SIZE = 20
sizes = st.lists(st.tuples(st.integers(0, 25), st.booleans()), max_size=40)


def made(sizes: list[tuple[int, bool]]) -> list[Unit]:
    return [
        Unit(
            source=number // 3,
            name=f"{number}.txt",
            offset=number % 2,
            payload=bytes([number]) * length,
            detail={"alone": alone},
            raw_bytes=length + 1,
        )
        for number, (length, alone) in enumerate(sizes)
    ]


def joined(parts: list[Unit]) -> list[Unit]:
    return list(gathered(parts, SIZE, side_by_side, lambda unit: not unit.detail["alone"]))


@given(sizes)
def test_what_was_joined_comes_apart_as_it_was(sizes: list[tuple[int, bool]]) -> None:
    parts = made(sizes)
    units = joined(parts)
    assert [part for unit in units for part in parts_of(unit)] == parts
    assert sum(unit.raw_bytes for unit in units) == sum(part.raw_bytes for part in parts)
    for unit in units:
        assert unit.places == tuple((part.source, part.name) for part in parts_of(unit))
        first = parts_of(unit)[0]
        assert (unit.source, unit.name, unit.offset) == (first.source, first.name, first.offset)


@given(sizes)
def test_units_are_as_large_as_they_may_be_and_some_stay_alone(sizes: list[tuple[int, bool]]) -> None:
    units = joined(made(sizes))
    for unit in units:
        parts = parts_of(unit)
        assert len(parts) == 1 or (len(unit.payload) <= SIZE and not any(part.detail["alone"] for part in parts))
    for unit, following in pairwise(units):
        ends, begins = parts_of(unit)[-1], parts_of(following)[0]
        alone = ends.detail["alone"] or begins.detail["alone"]
        assert alone or len(unit.payload) + len(begins.payload) > SIZE


def test_a_unit_has_a_limited_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outofcore.raw.gather.MOST_FILES", 3)
    assert [len(unit.places) for unit in joined(made([(0, False)] * 8))] == [3, 3, 2]
