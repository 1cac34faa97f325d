"""Predictions for the positions of games, as chess and Go list them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from outofcore.domains.domain import PREDICTED_SPLIT, Section
from outofcore.store.reader import Store
from outofcore.store.schema import Columns

if TYPE_CHECKING:
    from torch import Tensor


class Options(Section):
    """What is listed for each position."""

    best: int = Field(5, ge=1, le=1024, description="most probable moves that are listed")


def predicted_positions(
    store: Store, part: str, predicted: Iterable[Mapping[str, Tensor]]
) -> Iterator[tuple[int, Columns, dict[str, npt.NDArray[Any]]]]:
    """Each position: the number of its game from 1, its row, and what is predicted of it, by name."""
    table, starts = store.rows(PREDICTED_SPLIT, part), store.sequences(PREDICTED_SPLIT, part)["start"].read()
    first = 0
    for batch in predicted:
        arrays = {name: tensor.numpy() for name, tensor in batch.items()}
        last = first + len(next(iter(arrays.values())))
        stored = table.read(first, last)
        for place, game in enumerate(np.searchsorted(starts, np.arange(first, last), "right").tolist()):
            row = {name: column[place : place + 1] for name, column in stored.items()}
            yield game, row, {name: array[place] for name, array in arrays.items()}
        first = last
