"""Pictures of stores of games: positions spread over the games and over their course."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outofcore.domains.gallery import Picture, spread
from outofcore.store.reader import Store
from outofcore.store.schema import Columns

PICTURES = 6


def pictures_of(store: Store, draw: Callable[[Store, str, int, Columns], Picture]) -> Sequence[Picture]:
    """Positions of games spread over the store, each later in its game than the previous one.

    ``draw`` gets the store, the split, the number of the game, and the row.
    """
    pictures = []
    for place, (split, number, start, length) in enumerate(spread(store, PICTURES)):
        row = start + (place + 1) * length // (PICTURES + 2)
        pictures.append(draw(store, split, number, store.rows(split).read(row, row + 1)))
    return pictures
