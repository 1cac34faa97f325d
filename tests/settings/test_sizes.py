"""Sizes in and out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.settings.sizes import format_bytes, format_least, parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (0, 0),
        (268435456, 2**28),
        ("17", 17),
        ("256MiB", 2**28),
        ("256 mib", 2**28),
        ("1.5GiB", 3 * 2**29),
        ("3 kB", 3000),
        ("2.03 kB", 2030),
        ("2TB", 2 * 10**12),
        ("100 B", 100),
        ("9007199254740993B", 2**53 + 1),
    ],
)
def test_a_size_is_read(text: str | int, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "many", "-1", "1e9", "1 Gb/s", "GiB", "1,5GB", True, "5 GiB free", "0x10"])
def test_what_is_no_size_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a number of bytes such as .*512MiB"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (9_996_000, "10.0 MB"),
        (99_960_000, "100 MB"),
        (1_520_000_000, "1.52 GB"),
        (123_456_000_000_000, "123 TB"),
        (9_999_000_000_000_000, "9999 TB"),
    ],
)
def test_a_size_is_shown_to_three_figures(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(0, 10**18))
def test_what_is_shown_is_near(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == pytest.approx(count, rel=0.006)


@given(st.integers(0, 10**15))
def test_a_size_that_is_enough_is_shown_to_three_figures_and_no_larger_than_it_must_be(count: int) -> None:
    assert 0 <= parse_bytes(format_least(count)) - count < 10 ** max(0, len(str(count)) - 3)
    assert len(format_least(count)) <= len("1000 TB")


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 B"), (1000, "1.00 kB"), (1001, "1.01 kB"), (999_001, "1.00 MB")]
)
def test_a_size_that_is_enough_is_rounded_up(count: int, text: str) -> None:
    assert format_least(count) == text
