"""Headers of games: what is remembered of one for the next."""

from __future__ import annotations

import tracemalloc

import pytest

from outofcore.domains.go.columns import PROPERTIES, Header
from outofcore.domains.go.sgf.reader import OPENING


@pytest.mark.parametrize("name", PROPERTIES)
def test_long_properties_are_not_kept_in_memory(name: str) -> None:
    tracemalloc.start()
    try:
        for number in range(10):
            value = b"B+R" + str(number).encode() * 50_000
            Header({**dict.fromkeys(PROPERTIES, b""), name: value}, [0] * len(OPENING), fox=False)
        assert tracemalloc.get_traced_memory()[0] < 250_000
    finally:
        tracemalloc.stop()
