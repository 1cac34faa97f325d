"""Stored positions to tensors: planes, move targets, values and masks of legal moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outofcore.domains.chess import accelerator
from outofcore.domains.chess.legal import mark_legal
from outofcore.domains.chess.moves import Vocabulary, flip_code, mirror_code, vocabulary
from outofcore.domains.chess.params import ChessSection, TensorSection
from outofcore.domains.chess.widening import AS_BYTES, AS_WORDS, classify, show
from outofcore.domains.reading import Draws


@dataclass(frozen=True)
class ChessReading:
    """Positions as tensors.

    ``packed`` gives planes as bits, ``packed`` (batch, planes, 8) uint8, a byte per rank: an eighth of the bytes to
    transfer to an accelerator, where :func:`outofcore.domains.chess.accelerator.unpack` makes planes. ``side`` adds
    ``to_move`` (batch,) uint8: 0 White, 1 Black, which planes seen by the mover do not show.
    """

    section: TensorSection
    packed: bool = False
    side: bool = False

    fields: ClassVar[tuple[str, ...]] = ("boards", "state", "move", "result", "ply")

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, Tensor]:
        """Turn rows into tensors.

        ``rows`` hold ``boards`` (batch, 12) uint64, ``state`` (batch, 4) uint8, ``move`` (batch,) uint16, ``result``
        (batch,) int8 and ``ply`` (batch,) integer; ``draws`` (batch,) uint64 choose the positions to mirror.

        Returns ``planes`` (batch, 12 or 18, 8 ranks, 8 files) uint8 (see :func:`outofcore.domains.chess.widening.show`)
        or ``packed``; ``target`` (batch,) int64; ``value`` (batch,) float32: 1, 0 or -1 if White (in the mover's view
        the side to move) won, drew or lost; ``ply`` (batch,) int32; with ``legal_mask`` also ``legal`` (batch, classes)
        bool.
        """
        boards, states = np.ascontiguousarray(rows["boards"]), np.ascontiguousarray(rows["state"])
        count, mover = len(boards), self.section.view == "mover"
        mirrored = self._mirrored(states[:, 1] == 0, draws)
        turned = states[:, 0] * np.uint16(flip_code(0))
        # Exclusive or to the move as shown: from a stored move (White's squares), from one seen by the side to move.
        from_white = mirrored * np.uint16(mirror_code(0)) ^ (turned if mover else np.uint16(0))
        from_mover = from_white ^ turned
        moves = vocabulary(self.section.targets)

        table = AS_BYTES if self.packed else AS_WORDS
        planes = np.empty((count, self.section.planes, 8), table.dtype)
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
        if self.side:
            batch["to_move"] = torch.from_numpy(np.ascontiguousarray(states[:, 0]))
        if self.packed:
            batch["packed"] = torch.from_numpy(planes)
        else:
            batch["planes"] = torch.from_numpy(planes.view(np.uint8).reshape(count, self.section.planes, 8, 8))
        if self.section.legal_mask:
            batch["legal"] = _legal(boards, states, from_mover, moves)
        return batch

    def on_device(self, rows: Mapping[str, Tensor], draws: Draws) -> dict[str, Tensor]:
        """The same from rows on an accelerator, words as signed ones; legal moves are still computed on the CPU."""
        boards, states = rows["boards"], rows["state"]
        device, mover = boards.device, self.section.view == "mover"
        black = states[:, 0].long()
        if self.section.mirror:
            without_rights = (states[:, 1] == 0).cpu().numpy()
            mirrored = torch.from_numpy(self._mirrored(without_rights, draws)).to(device)
        else:
            mirrored = torch.zeros_like(states[:, 0])
        from_white = mirrored.long() * mirror_code(0) ^ (black * flip_code(0) if mover else 0)
        moves = vocabulary(self.section.targets)
        packed = accelerator.pack(boards, states, mirrored.bool(), self.section.planes, mover=mover)
        batch = {
            "target": accelerator.classify(boards, states, rows["move"], from_white, moves),
            "value": rows["result"].float() * (1 - 2 * black if mover else 1),
            "ply": rows["ply"].int() & 0xFFFF,
            **({"packed": packed} if self.packed else {"planes": accelerator.unpack(packed)}),
            **({"to_move": states[:, 0]} if self.side else {}),
        }
        if self.section.legal_mask:
            from_mover = (from_white ^ black * flip_code(0)).cpu().numpy().astype(np.uint16)
            host = boards.cpu().numpy().view(np.uint64), states.cpu().numpy()
            batch["legal"] = _legal(*host, from_mover, moves).to(device)
        return batch

    def plain(self) -> ChessReading:
        """The same reading without mirror images."""
        return replace(self, section=self.section.model_copy(update={"mirror": False}))

    def _mirrored(self, without_rights: npt.NDArray[np.bool_], draws: Draws) -> npt.NDArray[np.uint8]:
        """Which positions to mirror, 0 or 1."""
        if not self.section.mirror:
            return np.zeros(len(without_rights), np.uint8)
        return (draws >> np.uint64(63)).astype(np.uint8) * without_rights


def make_reading(store_attributes: Mapping[str, Any], section: ChessSection) -> ChessReading:
    """The reading of a store by the ``tensors`` settings."""
    del store_attributes
    return ChessReading(section.tensors)


def _legal(
    boards: npt.NDArray[np.uint64], states: npt.NDArray[np.uint8], flips: npt.NDArray[np.uint16], moves: Vocabulary
) -> Tensor:
    """Mask (positions, classes) of the legal moves as shown."""
    legal = np.zeros((len(boards), moves.size), np.bool_)
    mark_legal(boards, states, flips, moves.index, legal)
    return torch.from_numpy(legal)
