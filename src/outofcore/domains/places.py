"""Location of a domain's raw input: the first two keys of its section of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _checked(pattern: str) -> str:
    steps = pattern.split("/")
    if pattern.startswith("/") or ".." in steps:
        message = f"expected a pattern inside of raw, such as **/*, not {pattern!r}"
        raise ValueError(message)
    if any("**" in step and step != "**" for step in steps):
        message = "** stands for folders at any depth, as in **/*.txt; inside a name a single * is enough"
        raise ValueError(message)
    return pattern


_LONGEST = 4096  # bytes of a path on Linux
_TEXT = r"^[^\x00]+$"

Raw = Annotated[str, Field(min_length=1, max_length=_LONGEST, pattern=_TEXT)]
Match = Annotated[str, Field(min_length=1, max_length=_LONGEST, pattern=_TEXT), AfterValidator(_checked)]
