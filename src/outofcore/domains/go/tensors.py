"""Stored positions to planes and moves, by feature set, with history and symmetries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outofcore.domains.go.params import GoSection, TensorSection
from outofcore.domains.go.schema import MOVE_NUMBER, SIZE, STATE_COLUMNS, TO_PLAY
from outofcore.domains.go.sgf.meaning import PROFESSIONAL, UNKNOWN_RANK, ResultKind, Scoring
from outofcore.domains.go.widening import SYMMETRIES, on_boards, tables, widen
from outofcore.domains.reading import Draws
from outofcore.errors import ParamsError, StoreError
from outofcore.system.recycling import Recycler

HISTORY = 8
RECENT = 5
_BOARDS = {"planes3": 1, "alphagozero18": HISTORY, "planes8": 1}
_RECENT = {"planes3": 0, "alphagozero18": -1, "planes8": RECENT}
"""Moves that have a plane each, after that of the ko point; -1: two planes of the side to play instead."""
_TARGETS = ("winner", "result", "margin")
_FACTS = ("komi", "handicap", "black_rank", "white_rank", "scoring")
GLOBALS = (
    *(f"pass_{back}_back" for back in range(1, RECENT + 1)),
    *("komi", "komi_unknown", "handicap", "area_scoring", "scoring_unknown"),
    *("own_rank", "own_rank_unknown", "other_rank", "other_rank_unknown"),
)
"""Numbers of a position under ``globals``, in order.

As among KataGo's inputs: passes among the last five moves, komi in the view of the side to play in units of 20 points.
Handicap in units of 9 stones; 1 for area scoring, -1 for territory scoring; ranks in units of 10 dan (9 dan
0.9, 1 dan 0.1, 1 kyu 0, 1 professional dan 1.0). What is unknown is 0, and its flag 1.
"""


def planes(section: TensorSection) -> int:
    """Number of planes of a feature set."""
    recent = _RECENT[section.features]
    return 2 * _BOARDS[section.features] + (2 if recent < 0 else 1 + recent)


@dataclass(frozen=True)
class GoReading:
    """Positions as tensors."""

    section: TensorSection
    frame: int  # side of the largest board
    sizes: tuple[int, ...]  # sides of all boards that occur
    games: bool = False  # include the game of each position, by key
    memory: Recycler = field(default_factory=Recycler, compare=False, repr=False)
    boards: Recycler = field(default_factory=Recycler, compare=False, repr=False)

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
        features = self.section.features
        return max(_BOARDS[features], 1 + _RECENT[features])

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the games that it reads."""
        facts = _FACTS if self.section.features == "planes8" else ()
        return (*(_TARGETS if self.section.value else ()), *facts)

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, torch.Tensor]:
        """Turn rows into tensors.

        ``rows`` hold ``stones`` (batch, 2, bytes) uint8, ``state`` (batch, 4) int16, ``move`` (batch,) int16 and the
        other :attr:`fields`; with history all are (batch, :attr:`reach`, ...), the sample last. Earlier rows that
        belong to another game are recognised by their move numbers and give empty planes. ``draws`` (batch,) uint64
        choose the symmetries.

        Returns ``planes`` (batch, planes, frame, frame) uint8, side to play first: own stones, then the opponent's, now
        and for each earlier position; then for alphagozero18 two planes of the colour to play, for the others the ko
        point, for planes8 also the last five moves, latest first. ``move`` (batch,) int64 is frame * frame for a pass;
        ``to_play`` and ``number`` (preceding moves) are (batch,) int64; ``on_board`` (batch, frame, frame) uint8 if
        boards differ in size; ``game`` (batch,) int64 with ``games``; ``globals`` (batch, 14) float32 for planes8, see
        :data:`GLOBALS`. With the setting ``value`` also ``value`` (batch,) float32: 1 the side to play wins, -1 loses,
        0 draws, NaN unknown; and ``score`` (batch,) float32: the points that it is ahead in the end, NaN where they
        were not counted.
        """
        stones, state, move = rows["stones"], rows["state"], rows["move"]
        if stones.ndim == 3:
            stones, state, move = stones[:, None], state[:, None], move[:, None]
        if stones.shape[1] < self.reach:
            raise ParamsError(
                f"tensors.features {self.section.features} reads {self.reach} rows per sample: give the loader a "
                f'window of length {self.reach} with mode "reach"'
            )
        count, frame = len(stones), self.frame
        source, target = tables(frame, self.sizes)
        symmetry = np.zeros(count, np.uint8)
        if self.section.symmetries:
            symmetry = (draws % np.uint64(SYMMETRIES)).astype(np.uint8)
        stones, state, move = (np.ascontiguousarray(values) for values in (stones, state, move))
        shown = self.memory.empty((count, planes(self.section), frame * frame), np.dtype(np.uint8))
        boards, recent = _BOARDS[self.section.features], _RECENT[self.section.features]
        scratch = np.zeros(8 * stones.shape[-1] + 8, np.uint8)
        wrong = widen(stones, state, move, symmetry, source, target, boards, recent, scratch, shown)
        if wrong >= 0:
            facts = dict(zip(STATE_COLUMNS, state[wrong, -1].tolist(), strict=True)) | {"move": int(move[wrong, -1])}
            raise StoreError(f"fields state and move: {facts} is no position of a board within {frame} x {frame}")
        shown_move = target[state[:, -1, SIZE], symmetry, move[:, -1]]
        numbers = {"move": shown_move, "to_play": state[:, -1, TO_PLAY], "number": state[:, -1, MOVE_NUMBER]}
        batch = {"planes": torch.from_numpy(shown.reshape(count, -1, frame, frame))}
        batch |= {name: torch.from_numpy(values.astype(np.int64)) for name, values in numbers.items()}
        if len(self.sizes) > 1:
            on_board = self.boards.empty((count, frame, frame), np.dtype(np.uint8))
            np.take(on_boards(frame, self.sizes), state[:, -1, SIZE], axis=0, out=on_board, mode="clip")
            batch["on_board"] = torch.from_numpy(on_board)
        if self.columns:
            batch |= self._of_games(rows, state)
        if self.games:
            batch["game"] = torch.from_numpy(np.ascontiguousarray(rows["game"].reshape(count, -1)[:, -1]))
        return batch

    def _of_games(self, rows: Mapping[str, npt.NDArray[Any]], state: npt.NDArray[Any]) -> dict[str, torch.Tensor]:
        """What the columns of the games say, in the view of the side to play."""
        white, tensors = state[:, -1, TO_PLAY] == 1, dict[str, npt.NDArray[Any]]()
        sign = np.where(white, -1, 1).astype(np.float32)
        of = {name: rows[name].reshape(len(white), -1)[:, -1] for name in self.columns}
        if self.section.value:
            drawn, winner = of["result"] == ResultKind.DRAW, sign * of["winner"]
            for name, known in (("value", winner), ("score", winner * of["margin"])):
                tensors[name] = np.where(winner != 0, known, np.where(drawn, 0, np.nan))
        if self.section.features == "planes8":
            back, number = 1 + np.arange(RECENT), state[..., MOVE_NUMBER]
            same = number[:, -1:] - number[:, -1 - back] == back
            passes = same & (rows["move"][:, -1 - back] == self.frame * self.frame)
            scoring = of["scoring"]
            facts = (
                *_known(-sign * of["komi"] / 20, np.isnan(of["komi"])),
                of["handicap"] / 9,
                *_known(np.where(scoring == Scoring.AREA, 1, -1), scoring == Scoring.UNKNOWN),
                *_rank(np.where(white, of["white_rank"], of["black_rank"])),
                *_rank(np.where(white, of["black_rank"], of["white_rank"])),
            )
            tensors["globals"] = np.column_stack([passes, *facts])
        return {name: torch.from_numpy(values.astype(np.float32)) for name, values in tensors.items()}

    def plain(self) -> GoReading:
        """The same reading without symmetries."""
        return replace(self, section=self.section.model_copy(update={"symmetries": False}))


def _known(values: npt.NDArray[Any], unknown: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return np.where(unknown, 0, values), unknown


def _rank(ranks: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    ranks = ranks.astype(np.float32)
    return _known(np.where(ranks > PROFESSIONAL, ranks - PROFESSIONAL + 9, ranks) / 10, ranks == UNKNOWN_RANK)


def make_reading(store_attributes: Mapping[str, Any], section: GoSection) -> GoReading:
    """The reading of a store by its ``tensors`` settings."""
    sizes = tuple(sorted(store_attributes["params"]["filters"]["sizes"]))
    return GoReading(section.tensors, sizes[-1], sizes, games=section.train.task == "style")
