"""Stored positions -> planes and moves; by name of the feature set, history and symmetries included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outofcore.domains.go.params import GoSection, TensorSection
from outofcore.domains.go.play.engine import SIZE
from outofcore.domains.go.symmetry import SYMMETRIES, boards, tables
from outofcore.domains.go.widening import widen
from outofcore.domains.reading import Draws
from outofcore.errors import ParamsError

HISTORY = 8
_STEPS = {"planes3": 1, "history8": HISTORY, "alphagozero18": HISTORY}
_EXTRA_PLANES = {"planes3": 1, "history8": 0, "alphagozero18": 2}  # the ko point; the side to play
LIBERTY_PLANES = 3


def planes(section: TensorSection) -> int:
    """Number of planes of a feature set."""
    liberties = LIBERTY_PLANES if section.liberties else 0
    return 2 * _STEPS[section.features] + _EXTRA_PLANES[section.features] + liberties


@dataclass(frozen=True)
class GoReading:
    """Positions as tensors.

    Attributes
    ----------
    section
        What to give.
    frame
        Side of the largest board.
    sizes
        Sides of all boards that occur.
    games
        Whether to give the game of each position, by its key.
    """

    section: TensorSection
    frame: int
    sizes: tuple[int, ...]
    games: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """Row fields that are read."""
        liberties = ("liberties",) if self.section.liberties else ()
        return ("stones", "state", "move", *liberties, *(("game",) if self.games else ()))

    @property
    def reach(self) -> int:
        """Rows of a sample: the position and those before it that its history needs."""
        return _STEPS[self.section.features]

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, torch.Tensor]:
        """Turn rows into tensors.

        Parameters
        ----------
        rows
            ``stones`` (batch, 2, bytes) uint8, ``state`` (batch, 4) int16, ``move`` (batch,) int16, and the other
            :attr:`fields`; with history all of them (batch, 8, ...), the sample last. Rows before it that belong to an
            earlier game are known by their move numbers and give empty planes.
        draws
            Choose the symmetries, uint64 (batch,).

        Returns
        -------
        dict
            ``planes`` (batch, planes, frame, frame) uint8, the side to play first: stones now, own and the opponent's;
            the same for each earlier position; then, of planes3 the ko point, of alphagozero18 all points if Black is
            to play and all points if White is; then stones with 1, 2 and 3 liberties. ``move`` (batch,) int64,
            frame * frame for a pass. ``to_play`` (batch,) int64 and ``number`` (batch,) int64, moves before this one.
            Where boards of several sizes occur, ``on_board`` (batch, frame, frame) uint8. With ``games``, ``game``
            (batch,) int64.
        """
        stones, state, move = rows["stones"], rows["state"], rows["move"]
        if stones.ndim == 3:
            if self.reach > 1:
                message = (
                    f"tensors.features {self.section.features} reads {self.reach} rows a sample: give the loader a "
                    f'window of length {self.reach} with mode "reach"'
                )
                raise ParamsError(message)
            stones, state, move = stones[:, None], state[:, None], move[:, None]
        count, frame = len(stones), self.frame
        source, target = tables(frame, self.sizes)
        symmetry = np.zeros(count, np.uint8)
        if self.section.symmetries:
            symmetry = (draws % np.uint64(SYMMETRIES)).astype(np.uint8)
        liberties = np.empty((0, LIBERTY_PLANES, stones.shape[-1]), np.uint8)
        if self.section.liberties:
            liberties = rows["liberties"].reshape(count, -1, LIBERTY_PLANES, stones.shape[-1])[:, -1]
        shown = np.empty((count, planes(self.section), frame * frame), np.uint8)
        point, to_play, number = np.empty((3, count), np.int64)
        widen(
            np.ascontiguousarray(stones),
            np.ascontiguousarray(state),
            np.ascontiguousarray(move),
            np.ascontiguousarray(liberties),
            symmetry,
            source,
            target,
            self.section.features == "planes3",
            self.section.features == "alphagozero18",
            shown,
            point,
            to_play,
            number,
        )
        batch = {
            "planes": torch.from_numpy(shown.reshape(count, -1, frame, frame)),
            "move": torch.from_numpy(point),
            "to_play": torch.from_numpy(to_play),
            "number": torch.from_numpy(number),
        }
        if len(self.sizes) > 1:
            on_board = boards(frame, self.sizes)[state[:, -1, SIZE]]
            batch["on_board"] = torch.from_numpy(on_board)
        if self.games:
            batch["game"] = torch.from_numpy(np.ascontiguousarray(rows["game"].reshape(count, -1)[:, -1]))
        return batch


def make_reading(store_attributes: Mapping[str, Any], section: GoSection) -> GoReading:
    """The reading of a store, by the section's ``tensors`` settings.

    Raises
    ------
    ParamsError
        If the store lacks what the settings ask for.
    """
    params = store_attributes["params"]
    sizes = tuple(sorted(params["filters"]["sizes"]))
    if section.tensors.liberties and not params["source"]["liberties"]:
        message = (
            "go.tensors.liberties: the store holds no liberties; set go.source.liberties to true and convert again, or "
            "go.tensors.liberties to false"
        )
        raise ParamsError(message)
    return GoReading(section.tensors, sizes[-1], sizes, games=section.train.task == "style")
