"""Predictions for the positions of games, as chess and Go list them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from outofcore.domains.domain import PREDICTED_SPLIT, Section
from outofcore.domains.reading import OfSequences, Reading, Windowed
from outofcore.domains.task import Batch, Task
from outofcore.store.reader import Store
from outofcore.store.schema import Columns

Prediction = Mapping[str, npt.NDArray[Any]]
Predict = Callable[[Any, Batch], Mapping[str, Tensor]]
"""Of ``predict.py``: what a task expects of a batch."""


class Options(Section):
    """What is listed for each position."""

    best: int = Field(5, ge=1, le=1024, description="most probable moves that are listed")


def predicted_positions(
    task: Task,
    predict: Predict,
    store: Store,
    part: str,
    predicted: Iterable[Mapping[str, Tensor]],
    reading: Reading,
    after: Callable[[int, Columns], Columns | None],
) -> Iterator[tuple[int, Columns, Prediction, bool]]:
    """Each position, and the one that the last move of a game leads to.

    Its game (from 1), its row, what is predicted of it by name, and whether a move follows. ``after`` makes the row
    after the last rows of a game, two or more if it has them, None if the game is over.
    """
    table, games = store.rows(PREDICTED_SPLIT, part), store.sequences(PREDICTED_SPLIT, part)
    starts, lengths = store.extents(PREDICTED_SPLIT, part)
    ends, window = starts + lengths, _length(reading)
    columns = {name: games[name].read() for name in (reading.columns if isinstance(reading, OfSequences) else ())}
    first = 0
    for batch in predicted:
        arrays = {name: tensor.numpy() for name, tensor in batch.items()}
        last = first + len(next(iter(arrays.values())))
        begin = max(0, first - window)
        stored = table.read(begin, last)
        for number, game in enumerate(np.searchsorted(starts, np.arange(first, last), "right").tolist(), first):
            row = {name: column[number - begin :][:1] for name, column in stored.items()}
            yield game, row, {name: array[number - first] for name, array in arrays.items()}, True
            if number + 1 < ends[game - 1]:
                continue
            span = slice(max(int(starts[game - 1]), number - window) - begin, number + 1 - begin)
            earlier = {name: column[span] for name, column in stored.items()}
            if (reached := after(game, earlier)) is not None:
                own = {name: column[game - 1 : game] for name, column in columns.items()}
                yield game, reached, predict_one(task, predict, reading, {**reached, **own}, earlier), False
        first = last


def predict_one(
    task: Task, predict: Predict, reading: Reading, row: Columns, earlier: Columns | None = None
) -> Prediction:
    """What is predicted of a row that is in no store, by name; ``earlier`` are those of the same game before it."""
    length = _length(reading)
    if length > 1:
        # Rows of one number are no history of each other.
        before = {name: (earlier or {}).get(name, column[:0])[-(length - 1) :] for name, column in row.items()}
        row = {
            name: np.concatenate([np.repeat(column, length - 1 - len(before[name]), axis=0), before[name], column])[
                None
            ]
            for name, column in row.items()
        }
    with torch.no_grad():
        batch = reading(row, np.zeros(1, np.uint64))
        predicted = predict(task, {name: tensor.to(task.device) for name, tensor in batch.items()})
    return {name: tensor[0].cpu().numpy() for name, tensor in predicted.items()}


def _length(reading: Reading) -> int:
    """Rows of a sample."""
    return reading.window["length"] if isinstance(reading, Windowed) and reading.window else 1
