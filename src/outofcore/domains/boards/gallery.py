"""Pictures of games: positions spread over a store, and those that a model gets most wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from outofcore.display.table import figure
from outofcore.domains.boards.policy import MovePrediction
from outofcore.domains.boards.predict import Options, Prediction
from outofcore.domains.domain import Row
from outofcore.domains.gallery import Picture, spread
from outofcore.domains.task import Batch
from outofcore.store.reader import Store
from outofcore.store.schema import Columns

PICTURES = 6
LISTED = Options(best=3)


def pictures_of(store: Store, draw: Callable[[Store, str, int, Columns], Picture]) -> Sequence[Picture]:
    """Positions of games spread over the store, each later in its game than the previous one.

    ``draw`` gets the store, the split, the number of the game, and the row.
    """
    pictures = []
    for place, (split, number, start, length) in enumerate(spread(store, PICTURES)):
        row = start + (place + 1) * length // (PICTURES + 2)
        pictures.append(draw(store, split, number, store.rows(split).read(row, row + 1)))
    return pictures


def mistakes_of(
    task: MovePrediction,
    store: Store,
    split: str,
    judged: Iterable[tuple[Batch, Mapping[str, Tensor]]],
    draw: Callable[[int, Columns, Prediction], tuple[Picture, Row]],
) -> Sequence[Picture]:
    """Of each of some games the position whose move played got the least probability, the least first.

    ``judged`` are batches from the first row of the split on, with what the model predicts of them; ``draw`` gets the
    number of the game, the row and what is predicted of it.
    """
    starts, first = store.extents(split)[0], 0
    worst: dict[int, tuple[float, int, Prediction]] = {}  # by game: probability, row
    for batch, predicted in judged:
        played = predicted[task.target].gather(1, batch[task.target][:, None])[:, 0].tolist()
        games = np.searchsorted(starts, np.arange(first, first + len(played)), "right") - 1
        for place, (game, probability) in enumerate(zip(games.tolist(), played, strict=True)):
            if probability < worst.get(game, (2.0,))[0]:
                own = {name: tensor[place].cpu().numpy() for name, tensor in predicted.items()}
                worst[game] = probability, first + place, own
        first += len(played)
    pictures = []
    for game, (_, number, prediction) in sorted(worst.items(), key=lambda item: item[1][:2])[:PICTURES]:
        picture, row = draw(game, store.rows(split).read(number, number + 1), prediction)
        best = ", ".join(f"{name} {_percent(share)}" for name, share in row["best"].items())
        words = f"Probability of that move: {_percent(row['probability'])}; of the model's best: {best}"
        pictures.append(replace(picture, title=f"{picture.title}. {words}", alt=f"{picture.alt}. {words}"))
    return pictures


def _percent(share: float) -> str:
    return f"{figure(100 * share)}\N{NO-BREAK SPACE}%"
