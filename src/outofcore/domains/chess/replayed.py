"""Accepted games after the replay, from which the columns of a store are filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.pgn.facts import Facts, text_column
from outofcore.domains.chess.pgn.games import Games
from outofcore.domains.chess.pgn.notes import Notes
from outofcore.ndarrays import Ints
from outofcore.raw.unit import Stretch


class ReplayedGames(NamedTuple):
    """Accepted games of a unit, n, with all their positions, m."""

    games: Games  # all of the unit
    accepted: Ints  # (n,): numbers of these among them
    facts: Facts  # of these
    stretches: Sequence[Stretch]  # (n,): where each is
    offset: Ints  # (n,): in the decompressed file
    plies: Ints  # (n,)
    ply: Ints  # (m,)
    boards: dict[str, npt.NDArray[Any]]  # squares, state and move, (m, ...)
    notes: Notes  # of m moves

    def texts(self, tag: str) -> npt.NDArray[Any]:
        """A tag of each game, (n,)."""
        return text_column(self.games, tag)[self.accepted]

    def repeated(self, values: Any) -> npt.NDArray[Any]:
        """Values (n,) of the games for each of their positions, (m,)."""
        return np.repeat(values, self.plies, axis=0)
