"""Columns of chess and Go: a row of a table states one, and how a conversion fills it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.store.schema import Field


class Column(NamedTuple):
    """A column of the games or of their positions, and the function that fills it."""

    field: Field
    values: Callable[[Any], Any]  # (n, ...), from what the conversion knows of n games or positions
    tag: str = ""  # the PGN tag that it is read from, if there is one
    setting: str = ""  # of ``source``, without which it is not stored


def game_column(
    name: str,
    dtype: str,
    doc: str,
    values: Callable[[Any], Any] | None = None,
    attributes: Mapping[str, Any] = {},
    tag: str = "",
    setting: str = "",
    **field: Any,
) -> Column:
    """A column; without ``values``, the attribute of its name."""
    fills: dict[str, float | str] = {"string": "", "float32": 0.0}
    field = {"fill": fills.get(dtype, 0), "attributes": attributes, **field}
    return Column(Field(name=name, dtype=dtype, doc=doc, **field), values or attrgetter(name), tag, setting)


def filled(columns: Iterable[Column], games: Any) -> dict[str, npt.NDArray[Any]]:
    """The columns of these games."""
    return {
        field.name: np.asarray(values(games), object if field.dtype == "string" else field.dtype)
        for field, values, *_ in columns
    }
