"""Predictions for the positions of games, as chess and Go list them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
        numbered = list(enumerate(np.searchsorted(starts, np.arange(first, last), "right").tolist(), first))
        reached: dict[int, tuple[Columns, Columns]] = {}  # by game, with the rows before
        for number, game in numbered:
            if number + 1 < ends[game - 1]:
                continue
            span = slice(max(int(starts[game - 1]), number - window) - begin, number + 1 - begin)
            earlier = {name: column[span] for name, column in stored.items()}
            if (row := after(game, earlier)) is not None:
                reached[game] = {**row, **{name: column[game - 1 : game] for name, column in columns.items()}}, earlier
        follow = dict(zip(reached, predict_rows(task, predict, reading, list(reached.values())), strict=True))
        for number, game in numbered:
            row = {name: column[number - begin :][:1] for name, column in stored.items()}
            yield game, row, {name: array[number - first] for name, array in arrays.items()}, True
            if number + 1 == ends[game - 1] and game in reached:
                yield game, reached[game][0], follow[game], False
        first = last


def predict_rows(
    task: Task, predict: Predict, reading: Reading, samples: Sequence[tuple[Columns, Columns]]
) -> list[Prediction]:
    """What is predicted of rows that are in no store, by name, each with those of the same game before it."""
    if not samples:
        return []
    windows = [_window(row, earlier, _length(reading)) for row, earlier in samples]
    rows = {name: np.concatenate([window[name] for window in windows]) for name in windows[0]}
    with torch.no_grad():
        batch = reading(rows, np.zeros(len(samples), np.uint64))
        predicted = predict(task, {name: tensor.to(task.device) for name, tensor in batch.items()})
    arrays = {name: tensor.cpu().numpy() for name, tensor in predicted.items()}
    return [{name: array[number] for name, array in arrays.items()} for number in range(len(samples))]


def _window(row: Columns, earlier: Columns, length: int) -> Columns:
    """A row with the window of rows that ends with it, as a loader gives it."""
    if length == 1:
        return row
    window = {}
    for name, column in row.items():
        before = earlier.get(name, column[:0])[-(length - 1) :]
        window[name] = np.concatenate([np.repeat(column, length - 1 - len(before), axis=0), before, column])[None]
    return window


def _length(reading: Reading) -> int:
    """Rows of a sample."""
    return reading.window["length"] if isinstance(reading, Windowed) and reading.window else 1
