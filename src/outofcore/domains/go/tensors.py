"""Stored positions to planes and moves, by feature set, with history and symmetries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outofcore.domains.go.params import GoSection, TensorSection
from outofcore.domains.go.schema import SIZE
from outofcore.domains.go.symmetry import SYMMETRIES, boards, tables
from outofcore.domains.go.widening import HistoryRows, Tensors, widen
from outofcore.domains.reading import Draws
from outofcore.errors import ParamsError
from outofcore.system.recycling import Recycler

HISTORY = 8
_STEPS = {"planes3": 1, "alphagozero18": HISTORY}
_EXTRA_PLANES = {"planes3": 1, "alphagozero18": 2}  # the ko point; the side to play


def planes(section: TensorSection) -> int:
    """Number of planes of a feature set."""
    return 2 * _STEPS[section.features] + _EXTRA_PLANES[section.features]


@dataclass(frozen=True)
class GoReading:
    """Positions as tensors."""

    section: TensorSection
    frame: int  # side of the largest board
    sizes: tuple[int, ...]  # sides of all boards that occur
    games: bool = False  # include the game of each position, by key
    memory: Recycler = field(default_factory=Recycler, compare=False, repr=False)

    @property
    def fields(self) -> tuple[str, ...]:
        return ("stones", "state", "move", *(("game",) if self.games else ()))

    @property
    def window(self) -> dict[str, Any] | None:
        """Windows that cover the history."""
        return {"length": self.reach, "mode": "reach"} if self.reach > 1 else None

    @property
    def reach(self) -> int:
        """Rows per sample: the position and its history."""
        return _STEPS[self.section.features]

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, torch.Tensor]:
        """Turn rows into tensors.

        ``rows`` hold ``stones`` (batch, 2, bytes) uint8, ``state`` (batch, 4) int16, ``move`` (batch,) int16 and the
        other :attr:`fields`; with history all are (batch, 8, ...), the sample last. Earlier rows that belong to another
        game are recognised by their move numbers and give empty planes. ``draws`` (batch,) uint64 choose the
        symmetries.

        Returns ``planes`` (batch, planes, frame, frame) uint8, side to play first: own stones, then the opponent's, now
        and for each earlier position; then for planes3 the ko point, for alphagozero18 two planes of the colour to
        play. ``move`` (batch,) int64 is frame * frame for a pass; ``to_play``
        and ``number`` (preceding moves) are (batch,) int64; ``on_board`` (batch, frame, frame) uint8 if boards differ
        in size; ``game`` (batch,) int64 with ``games``.
        """
        stones, state, move = rows["stones"], rows["state"], rows["move"]
        if stones.ndim == 3:
            if self.reach > 1:
                message = (
                    f"tensors.features {self.section.features} reads {self.reach} rows per sample: give the loader a "
                    f'window of length {self.reach} with mode "reach"'
                )
                raise ParamsError(message)
            stones, state, move = stones[:, None], state[:, None], move[:, None]
        count, frame = len(stones), self.frame
        source, target = tables(frame, self.sizes)
        symmetry = np.zeros(count, np.uint8)
        if self.section.symmetries:
            symmetry = (draws % np.uint64(SYMMETRIES)).astype(np.uint8)
        stones, state, move = (np.ascontiguousarray(values) for values in (stones, state, move))
        shown = self.memory.empty((count, planes(self.section), frame * frame), np.dtype(np.uint8))
        tensors = Tensors(shown, *np.empty((3, count), np.int64))
        with_ko = self.section.features == "planes3"
        scratch = np.zeros(8 * stones.shape[-1] + 8, np.uint8)
        widen(HistoryRows(stones, state, move, symmetry), source, target, with_ko, scratch, tensors)
        batch = {
            "planes": torch.from_numpy(shown.reshape(count, -1, frame, frame)),
            "move": torch.from_numpy(tensors.move),
            "to_play": torch.from_numpy(tensors.to_play),
            "number": torch.from_numpy(tensors.number),
        }
        if len(self.sizes) > 1:
            on_board = boards(frame, self.sizes)[state[:, -1, SIZE]]
            batch["on_board"] = torch.from_numpy(on_board)
        if self.games:
            batch["game"] = torch.from_numpy(np.ascontiguousarray(rows["game"].reshape(count, -1)[:, -1]))
        return batch

    def plain(self) -> GoReading:
        """The same reading without symmetries."""
        return replace(self, section=self.section.model_copy(update={"symmetries": False}))


def make_reading(store_attributes: Mapping[str, Any], section: GoSection) -> GoReading:
    """The reading of a store by its ``tensors`` settings."""
    sizes = tuple(sorted(store_attributes["params"]["filters"]["sizes"]))
    return GoReading(section.tensors, sizes[-1], sizes, games=section.train.task == "style")
