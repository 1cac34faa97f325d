"""Stored positions -> tensors: planes, move targets, values and masks of legal moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from outofcore.domains.chess.legal import mark_legal
from outofcore.domains.chess.moves import flip_code, mirror_code, vocabulary
from outofcore.domains.chess.widening import AS_BYTES, AS_WORDS, classify, show
from outofcore.domains.domain import Section


class TensorSection(Section):
    """What a position becomes when it is read; changes no byte of the store."""

    planes: Literal[12, 18] = Field(
        12, description="12 piece planes, or 18 with White to move, four castling rights and en passant"
    )
    view: Literal["white", "mover"] = Field(
        "mover", description="white: the board as printed; mover: seen by the side to move, its pieces first"
    )
    targets: Literal["uci", "alphazero"] = Field(
        "uci", description="move vocabulary: 1968 UCI moves, or 4672 = 8 x 8 x 73 as in AlphaZero"
    )
    legal_mask: bool = Field(default=False, description="also give the mask of legal moves")
    mirror: bool = Field(
        default=False,
        description="mirror half of the training positions that have no castling rights left to right; "
        "the mirror image of a castling right is no legal chess",
    )


@dataclass(frozen=True)
class ChessReading:
    """Positions as tensors.

    Attributes
    ----------
    section
        What to give.
    packed
        Give the planes as bits, ``packed`` (batch, planes, 8) uint8, a byte a rank, instead of ``planes``: an eighth of
        the bytes to move to an accelerator, where :func:`outofcore.domains.chess.widening.unpack` makes planes of them.
    """

    section: TensorSection
    packed: bool = False

    fields: ClassVar[tuple[str, ...]] = ("boards", "state", "move", "result", "ply")

    def __call__(
        self, rows: Mapping[str, npt.NDArray[Any]], generator: np.random.Generator
    ) -> dict[str, Tensor]:
        """Turn rows into tensors.

        Parameters
        ----------
        rows
            ``boards`` (batch, 12) uint64, ``state`` (batch, 4) uint8, ``move`` (batch,) uint16, ``result`` (batch,)
            int8, ``ply`` (batch,) of an integer type.
        generator
            Chooses the positions to mirror.

        Returns
        -------
        dict
            ``planes`` (batch, 12 or 18, 8 ranks, 8 files) uint8 (see :func:`outofcore.domains.chess.widening.show`),
            or ``packed``; ``target`` (batch,) int64; ``value`` (batch,) float32: 1, 0 or -1 as White, or in the mover's
            view the side to move, won, drew or lost; ``ply`` (batch,) int32; with ``legal_mask`` also ``legal``
            (batch, classes) bool.
        """
        section = self.section
        boards, states = np.ascontiguousarray(rows["boards"]), np.ascontiguousarray(rows["state"])
        count = len(boards)
        mover = section.view == "mover"
        mirrored = np.zeros(count, np.uint8)
        if section.mirror:
            mirrored = generator.integers(0, 2, count, np.uint8) * (states[:, 1] == 0)
        turned = states[:, 0] * np.uint16(flip_code(0))
        # From a stored move (White's squares) to the move as shown, and from one seen by the side to move.
        from_white = mirrored * np.uint16(mirror_code(0)) ^ (turned if mover else np.uint16(0))
        from_mover = from_white ^ turned
        moves = vocabulary(section.targets)

        table = AS_BYTES if self.packed else AS_WORDS
        planes = np.empty((count, section.planes, 8), table.dtype)
        show(boards.view(np.uint8).reshape(count, 12, 8), states, mover, mirrored, table, planes)
        target = np.empty(count, np.int64)
        classify(boards, states, rows["move"], from_white, moves.index, target)
        value = rows["result"].astype(np.float32)
        if mover:
            value *= 1 - 2 * states[:, 0].astype(np.float32)
        batch = {
            "target": torch.from_numpy(target),
            "value": torch.from_numpy(value),
            "ply": torch.from_numpy(rows["ply"].astype(np.int32)),
        }
        if self.packed:
            batch["packed"] = torch.from_numpy(planes)
        else:
            batch["planes"] = torch.from_numpy(planes.view(np.uint8).reshape(count, section.planes, 8, 8))
        if section.legal_mask:
            legal = np.zeros((count, moves.size), np.bool_)
            mark_legal(boards, states, from_mover, moves.index, legal)
            batch["legal"] = torch.from_numpy(legal)
        return batch
