"""Numbers of bytes, for people and programs."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)

EXPECTED_SIZE = "a number of bytes such as 500000000, 500MB, 512MiB or 1.5GiB"


def parse_bytes(text: str | int) -> int:
    """Read a size: ``"256MiB"``, ``"1.5 GB"``, ``268435456``.

    Parameters
    ----------
    text
        A number with a unit: B, kB, MB, GB, TB (powers of 1,000) or KiB, MiB, GiB, TiB (powers of 1,024), in either
        case; without a unit, bytes.

    Raises
    ------
    ValueError
        If it is not a size; the message lists valid forms.

    Examples
    --------
    >>> parse_bytes("256MiB")
    268435456
    """
    match = None if isinstance(text, bool) else _SIZE.fullmatch(str(text))
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(f"expected {EXPECTED_SIZE}, got {text!r}")
    return int(Decimal(match[1]) * _UNITS[match[2].lower()])


def format_bytes(count: int) -> str:
    """A readable size to three digits: ``1.52 GB``; powers of 1,000, as disks are sold.

    Examples
    --------
    >>> format_bytes(1_520_000_000)
    '1.52 GB'
    """
    if abs(count) < 1000:
        return f"{count} B"
    value, units = count / 1000, ["TB", "GB", "MB", "kB"]
    while abs(value) >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop()
    decimals = max(0, 3 - len(str(int(float(f"{abs(value):.3g}")))))  # of the rounded number
    return f"{value:.{decimals}f} {units[-1]}"


def format_least(count: int) -> str:
    """A readable size as in :func:`format_bytes`, rounded up: a budget of that size has ``count`` bytes or more."""
    third = 10 ** max(0, len(str(count)) - 3)
    return format_bytes(-(-count // third) * third)
