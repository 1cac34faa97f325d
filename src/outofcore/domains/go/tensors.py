"""Stored positions -> planes and moves; by name of the feature set, history and symmetries included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import njit

from outofcore.domains.go.params import GoSection, TensorSection
from outofcore.domains.go.play.engine import KO, MOVE_NUMBER, SIZE, TO_PLAY
from outofcore.domains.go.symmetry import SYMMETRIES, tables
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

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], generator: np.random.Generator) -> dict[str, torch.Tensor]:
        """Turn rows into tensors.

        Parameters
        ----------
        rows
            ``stones`` (batch, 2, bytes) uint8, ``state`` (batch, 4) int16, ``move`` (batch,) int16, and the other
            :attr:`fields`; with history all of them (batch, 8, ...), the sample last. Rows before it that belong to an
            earlier game are known by their move numbers and give empty planes.
        generator
            Draws the symmetries.

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
        symmetry = np.zeros(count, np.int64)
        if self.section.symmetries:
            symmetry = generator.integers(0, SYMMETRIES, count)
        now = state[:, -1]
        out = np.zeros((count, planes(self.section), frame * frame), np.uint8)
        liberties = np.empty((0, LIBERTY_PLANES, stones.shape[-1]), np.uint8)
        if self.section.liberties:
            liberties = rows["liberties"].reshape(count, -1, LIBERTY_PLANES, stones.shape[-1])[:, -1]
        _widen(
            np.ascontiguousarray(stones),
            np.ascontiguousarray(state),
            liberties,
            symmetry,
            source,
            target,
            self.section.features == "planes3",
            self.section.features == "alphagozero18",
            out,
        )
        sizes = now[:, SIZE].astype(np.int64)
        batch = {
            "planes": torch.from_numpy(out.reshape(count, -1, frame, frame)),
            "move": torch.from_numpy(target[sizes, symmetry, move[:, -1]].astype(np.int64)),
            "to_play": torch.from_numpy(now[:, TO_PLAY].astype(np.int64)),
            "number": torch.from_numpy(now[:, MOVE_NUMBER].astype(np.int64)),
        }
        if len(self.sizes) > 1:
            on_board = source[sizes, 0] >= 0
            batch["on_board"] = torch.from_numpy(on_board.view(np.uint8).reshape(count, frame, frame))
        if self.games:
            batch["game"] = torch.from_numpy(np.ascontiguousarray(rows["game"].reshape(count, -1)[:, -1]))
        return batch


@njit(nogil=True, cache=True)
def _show(packed: Any, source: Any, shown: Any, plane: Any) -> None:
    """Unpack the bits of a plane, point by point where each comes from; ``shown`` is scratch of 8 * bytes."""
    for place in range(len(packed)):
        byte = packed[place]
        for bit in range(8):
            shown[8 * place + bit] = (byte >> (7 - bit)) & 1
    for point in range(len(plane)):
        if source[point] >= 0:
            plane[point] = shown[source[point]]


@njit(nogil=True, cache=True)
def _widen(
    stones: Any,
    state: Any,
    liberties: Any,
    symmetry: Any,
    source: Any,
    target: Any,
    with_ko: Any,
    with_colour: Any,
    out: Any,
) -> None:
    """Fill ``out`` (batch, planes, points), zero before; see :meth:`GoReading.__call__`."""
    steps = stones.shape[1]
    shown = np.empty(8 * stones.shape[3], np.uint8)
    for sample in range(len(stones)):
        last = steps - 1
        size, colour = state[sample, last, SIZE], state[sample, last, TO_PLAY]
        number, ko = state[sample, last, MOVE_NUMBER], state[sample, last, KO]
        points = source[size, symmetry[sample]]
        for back in range(steps):
            row = last - back
            if number - state[sample, row, MOVE_NUMBER] == back:
                _show(stones[sample, row, colour], points, shown, out[sample, 2 * back])
                _show(stones[sample, row, 1 - colour], points, shown, out[sample, 2 * back + 1])
        plane = 2 * steps
        if with_ko:
            if ko >= 0:
                out[sample, plane, target[size, symmetry[sample], ko]] = 1
            plane += 1
        if with_colour:
            for point in range(len(points)):
                if points[point] >= 0:
                    out[sample, plane + colour, point] = 1
            plane += 2
        if len(liberties):
            for place in range(liberties.shape[1]):
                _show(liberties[sample, place], points, shown, out[sample, plane + place])


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
