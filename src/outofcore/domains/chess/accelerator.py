""":mod:`outofcore.domains.chess.widening` for rows on an accelerator, with whole-tensor operations."""

from __future__ import annotations

import torch
from torch import Tensor

from outofcore.domains.chess.legal import NO_FILE
from outofcore.domains.chess.moves import Vocabulary
from outofcore.domains.chess.widening import AS_BYTES


def unpack(packed: Tensor) -> Tensor:
    """Bits (..., planes, 8) uint8 -> planes (..., planes, 8, 8) uint8, on the tensor's device."""
    files = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return packed.unsqueeze(-1) >> files & 1


def pack(boards: Tensor, states: Tensor, mirrored: Tensor, planes: int, *, mover: bool) -> Tensor:
    """Packed planes (positions, 12 or 18, 8) uint8, a byte per rank; see :func:`outofcore.domains.chess.widening.show`.

    ``boards`` (positions, 12) int64 with the bits of unsigned words, ``states`` (positions, 4) uint8, ``mirrored``
    (positions,) bool; ``mover`` shows the board from the side to move.
    """
    black = (states[:, 0] != 0)[:, None, None]
    shown = boards.view(torch.uint8).view(-1, 12, 8)
    if mover:
        shown = torch.where(black, shown.flip(2).roll(6, 1), shown)
    if planes > shown.shape[1]:
        shown = torch.cat([shown, _state_planes(states, mover=mover)], 1)
    reverse = torch.from_numpy(AS_BYTES[1]).to(boards.device)
    return torch.where(mirrored[:, None, None], reverse[shown.int()], shown)


def classify(boards: Tensor, states: Tensor, moves: Tensor, flips: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Classes (positions,) int64 of stored moves; see :func:`outofcore.domains.chess.widening.classify`.

    ``boards`` (positions, 12) int64, ``states`` (positions, 4) uint8, ``moves`` (positions,) int16 with the bits of
    unsigned words, ``flips`` (positions,) int64: exclusive or from the stored move to the move as shown.
    """
    code = moves.long() & 0xFFFF
    start, end = code & 63, code >> 6 & 63
    black = states[:, 0] != 0
    king, rook = (torch.where(black, boards[:, piece + 6], boards[:, piece]) for piece in (5, 3))
    to_corner = (start & 7 == 4) & ((end & 7 == 7) | (end & 7 == 0))
    castles = to_corner & (king >> start & 1 == 1) & (rook >> end & 1 == 1)
    two_squares = start | start + torch.where(end > start, 2, -2) << 6
    index = torch.from_numpy(vocabulary.index.astype("int64")).to(boards.device)
    return index[torch.where(castles, two_squares, code) ^ flips]


def _state_planes(states: Tensor, *, mover: bool) -> Tensor:
    """(positions, 6, 8) uint8: White to move, four castling rights, en passant."""
    black = states[:, 0] != 0
    rights = states[:, 1:2] >> torch.arange(4, dtype=torch.uint8, device=states.device) & 1
    if mover:
        rights = torch.where(black[:, None], rights.roll(2, 1), rights)
    flags = torch.cat([(~black)[:, None].to(torch.uint8), rights], 1) * 255
    file = states[:, 2]
    leapt = torch.where(file == NO_FILE, 0, torch.ones_like(file) << (file & 7))
    rank = torch.where(black, 5 if mover else 2, 5)
    ranks = torch.arange(8, device=states.device)
    en_passant = leapt[:, None] * (ranks == rank[:, None]).to(torch.uint8)
    return torch.cat([flags[:, :, None].expand(-1, -1, 8), en_passant[:, None, :]], 1)
