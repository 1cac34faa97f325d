"""What short texts mean, which come again in game after game; a long one is rare, and thousands would fill memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Meaning = TypeVar("Meaning")

LONGEST = 256  # characters or bytes of all texts of a call


def remembered(read: Callable[Arguments, Meaning]) -> Callable[Arguments, Meaning]:
    """Have a pure function of texts, given by position, remember results of short ones."""
    known: Callable[..., Meaning] = lru_cache(maxsize=4096)(read)

    @wraps(read)
    def meaning(*texts: Arguments.args, **options: Arguments.kwargs) -> Meaning:
        short = sum(map(len, cast("tuple[bytes, ...]", texts))) <= LONGEST
        return known(*texts, **options) if short else read(*texts, **options)

    return meaning
