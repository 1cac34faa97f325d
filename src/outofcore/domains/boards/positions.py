"""Positions of a store of games: as a model predicts them, and a few of them for pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.gallery import spread
from outofcore.domains.predictor import SPLIT
from outofcore.store.reader import Store
from outofcore.store.schema import Columns

if TYPE_CHECKING:
    from torch import Tensor


def predicted_positions(
    store: Store, part: str, predicted: Iterable[Mapping[str, Tensor]]
) -> Iterator[tuple[int, Columns, dict[str, npt.NDArray[Any]]]]:
    """Each position: the number of its game from 1, its row, and what is predicted of it, by name."""
    table, starts = store.rows(SPLIT, part), store.sequences(SPLIT, part)["start"].read()
    first = 0
    for batch in predicted:
        arrays = {name: tensor.numpy() for name, tensor in batch.items()}
        last = first + len(next(iter(arrays.values())))
        stored = table.read(first, last)
        for place, game in enumerate(np.searchsorted(starts, np.arange(first, last), "right").tolist()):
            row = {name: column[place : place + 1] for name, column in stored.items()}
            yield game, row, {name: array[place] for name, array in arrays.items()}
        first = last


def positions_for_pictures(store: Store, count: int) -> Iterator[tuple[str, int, Columns]]:
    """Split, number of the game and row of positions spread over the store, each later in its game than the last."""
    for place, (split, number, start, length) in enumerate(spread(store, count)):
        row = start + (place + 1) * length // (count + 2)
        yield split, number, store.rows(split).read(row, row + 1)
