"""Stored positions to tensors: planes, move targets, values and masks of legal moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outofcore.domains.chess.codes import NO_EVALUATION, UNFINISHED, WHITE_TO_MOVE
from outofcore.domains.chess.legal import mark_legal
from outofcore.domains.chess.moves import flip_code, mirror_code, vocabulary
from outofcore.domains.chess.params import ChessSection, TensorSection
from outofcore.domains.chess.schema import POSITION_COLUMNS
from outofcore.domains.chess.squares import as_words
from outofcore.domains.chess.widening import HISTORY_BOARDS, HISTORY_PLANES, classify, draw_history, draw_planes
from outofcore.domains.reading import Draws
from outofcore.errors import ParamsError
from outofcore.ndarrays import Bytes
from outofcore.system.recycling import Recycler

MOST_CENTIPAWNS = 1000
"""Bound of evaluations as values, on Lichess too; a mate counts as much."""


@dataclass(frozen=True)
class ChessReading:
    """Positions as tensors.

    ``side`` adds ``to_move`` (batch,) uint8: 0 White, 1 Black, which planes seen by the mover do not show; with ``elo``
    it is always there.
    """

    section: TensorSection
    side: bool = False
    memory: Recycler = field(default_factory=Recycler, compare=False, repr=False)
    masks: Recycler = field(default_factory=Recycler, compare=False, repr=False)

    @property
    def fields(self) -> tuple[str, ...]:
        value = value_fields(self.section)
        return tuple(dict.fromkeys(("squares", "state", "move", *value, "ply", *self.section.fields)))

    @property
    def columns(self) -> tuple[str, ...]:
        return ("white_elo", "black_elo") if self.section.elo else ()

    @property
    def window(self) -> dict[str, Any] | None:
        """Windows that cover the boards before a position."""
        return {"length": HISTORY_BOARDS, "mode": "reach"} if self.section.planes == HISTORY_PLANES else None

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, Tensor]:
        """Turn rows into tensors.

        ``rows`` hold ``squares`` (batch, 4, 8) uint8, ``state`` (batch, 4) uint8, ``move`` (batch,) uint16, ``result``
        (batch,) int8, ``ply`` (batch,) integer and the other :attr:`fields`; ``draws`` (batch,) uint64 choose the
        positions to mirror. All may have a second axis, the positions of a window; so has every tensor then. With 119
        planes it has the 8 rows that end with the position, and tensors have none; rows of another game, recognised by
        their ply, give empty planes.

        Returns ``planes`` (batch, 12, 18 or 119, 8 ranks, 8 files) uint8 (see ``draw_planes`` and ``draw_history`` in
        :mod:`outofcore.domains.chess.widening`); ``target`` (batch,) int64; ``value`` (batch,) float32: 1,
        0 or -1 if White (in the mover's view the side to move) won, drew or lost, NaN in an unfinished game, or with
        ``value: evaluation`` as in :func:`expected_results`; ``ply`` (batch,) int32; with ``legal_mask`` also ``legal``
        (batch, classes) bool; with ``elo`` also ``elo`` (batch, 2) int32: of the side to move, and of its opponent, 0
        if unknown; and the stored fields that are named, as they are.
        """
        history, samples, rights = rows, rows["state"].shape[:-1], rows["state"][..., 1]
        if self.window:
            if samples[1:] != (HISTORY_BOARDS,):
                raise ParamsError(
                    f"tensors.planes 119: expected a window of 8 rows (mode reach) per sample, got {samples[1:]}"
                )
            rows = {name: column[:, -1] for name, column in rows.items()}
            shown = rows["ply"][:, None] - history["ply"].astype(np.int64) == np.arange(HISTORY_BOARDS)[::-1]
            rights = (rights * shown).any(1)  # no board before may castle either: the castling would be mirrored
        elif len(samples) > 1:
            flat = {name: column.reshape(-1, *column.shape[len(samples) :]) for name, column in rows.items()}
            batch = self(flat, np.repeat(draws, samples[1]))
            return {name: tensor.reshape(*samples, *tensor.shape[1:]) for name, tensor in batch.items()}
        squares, states = as_words(rows["squares"]), np.ascontiguousarray(rows["state"])
        count, mover = len(squares), self.section.view == "mover"
        mirrored = self._mirrored(rights == 0, draws)
        turned = states[:, 0] * np.uint16(flip_code(0))
        # Exclusive or to the move as shown: from a stored move (White's squares), from one seen by the side to move.
        from_white = mirrored * np.uint16(mirror_code(0)) ^ (turned if mover else np.uint16(0))
        from_mover = from_white ^ turned
        moves = vocabulary(self.section.targets)

        planes = self.memory.empty((count, self.section.planes, 64), np.dtype(np.uint8))
        if self.window:
            boards = as_words(history["squares"]), np.ascontiguousarray(history["state"])
            draw_history(*boards, rows["ply"], shown, mover, mirrored, planes)
        else:
            draw_planes(squares, states, mover, mirrored, planes)
        target = np.empty(count, np.int64)
        classify(squares, states, rows["move"], from_white, moves.index, target)
        value = values(rows, self.section)
        if mover:
            value *= 1 - 2 * states[:, 0].astype(np.float32)
        batch = {
            "target": torch.from_numpy(target),
            "value": torch.from_numpy(value),
            "ply": torch.from_numpy(rows["ply"].astype(np.int32)),
        }
        if self.section.elo:
            elo = np.stack([rows["white_elo"], rows["black_elo"]], axis=1).astype(np.int32)
            batch["elo"] = torch.from_numpy(np.where(states[:, :1] == WHITE_TO_MOVE, elo, elo[:, ::-1]))
        if self.side or self.section.elo:
            batch["to_move"] = torch.from_numpy(np.ascontiguousarray(states[:, 0]))
        batch["planes"] = torch.from_numpy(planes.reshape(count, self.section.planes, 8, 8))
        if self.section.legal_mask:
            legal = self.masks.empty((count, moves.size), np.dtype(np.bool_))
            legal[...] = False
            mark_legal(squares, states, from_mover, moves.index, legal)
            batch["legal"] = torch.from_numpy(legal)
        return batch | {name: torch.from_numpy(np.ascontiguousarray(rows[name])) for name in self.section.fields}

    def plain(self) -> ChessReading:
        """The same reading without mirror images."""
        return replace(self, section=self.section.model_copy(update={"mirror": False}))

    def _mirrored(self, without_rights: npt.NDArray[np.bool_], draws: Draws) -> Bytes:
        """Which positions to mirror, 0 or 1."""
        if not self.section.mirror:
            return np.zeros(len(without_rights), np.uint8)
        return (draws >> np.uint64(63)).astype(np.uint8) * without_rights


def value_fields(section: TensorSection) -> tuple[str, ...]:
    """Stored fields that :func:`values` reads."""
    return ("result",) if section.value == "result" else ("position_evaluation",)


def values(rows: Mapping[str, npt.NDArray[Any]], section: TensorSection) -> npt.NDArray[np.float32]:
    """Value of each row for White, (n,); NaN where it is unknown."""
    if section.value == "result":
        value = rows["result"].astype(np.float32)
        value[rows["result"] == UNFINISHED] = np.nan
        return value
    evaluation = rows["position_evaluation"].astype(np.int64)
    expected: npt.NDArray[np.float32] = expected_results()[
        evaluation.clip(-MOST_CENTIPAWNS, MOST_CENTIPAWNS) + MOST_CENTIPAWNS
    ]
    expected[evaluation == NO_EVALUATION] = np.nan
    return expected


@cache
def expected_results() -> npt.NDArray[np.float32]:
    """Expected result, from -1 to 1, by centipawns from -1000 to 1000.

    2 / (1 + exp(-0.00368208 centipawns)) - 1, the winning chances of Lichess, fitted to games of players rated from
    2300 (https://github.com/lichess-org/lila/pull/11148).
    """
    centipawns = np.arange(-MOST_CENTIPAWNS, MOST_CENTIPAWNS + 1)
    chances: npt.NDArray[np.float32] = (2 / (1 + np.exp(-0.00368208 * centipawns)) - 1).astype(np.float32)
    return chances


def make_reading(store_attributes: Mapping[str, Any], section: ChessSection) -> ChessReading:
    """The reading of a store by the ``tensors`` settings; raises ParamsError if a field is missing."""
    stored = store_attributes.get("params", {}).get("source", {})
    for column in POSITION_COLUMNS:
        if column.setting and not stored.get(column.setting) and column.field.name in section.tensors.fields:
            raise ParamsError(
                f"chess.tensors.fields: the store holds no {column.field.name}; set chess.source.{column.setting} to "
                "true and convert again, or leave it out"
            )
    filters = store_attributes.get("params", {}).get("filters", {})
    thinned = ("min_clock", "min_elo", "max_elo") if filters.get("elo_of") == "mover" else ("min_clock",)
    if section.tensors.planes == HISTORY_PLANES and any(filters.get(name) is not None for name in thinned):
        raise ParamsError(
            "chess.tensors.planes: 119 needs all positions of a game, but the store was filtered by min_clock or "
            "elo_of: mover; convert without these, or use 18"
        )
    return ChessReading(section.tensors)
