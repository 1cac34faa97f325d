""":mod:`outofcore.domains.chess.widening` for rows on an accelerator, with whole-tensor operations."""

from __future__ import annotations

import torch
from torch import Tensor

from outofcore.domains.chess.legal import NO_FILE
from outofcore.domains.chess.moves import Vocabulary
from outofcore.domains.chess.schema import CODES
from outofcore.domains.chess.squares import BLACK, KING, ROOK


def unpack(packed: Tensor) -> Tensor:
    """Bits (..., planes, 8) uint8 -> planes (..., planes, 8, 8) uint8, on the tensor's device."""
    files = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return packed.unsqueeze(-1) >> files & 1


def pack(planes: Tensor) -> Tensor:
    """Planes (..., planes, 8, 8) uint8 -> bits (..., planes, 8) uint8, the inverse of :func:`unpack`."""
    files = torch.arange(8, dtype=torch.uint8, device=planes.device)
    return (planes << files).sum(-1, dtype=torch.uint8)


def show(squares: Tensor, states: Tensor, mirrored: Tensor, planes: int, *, mover: bool) -> Tensor:
    """Planes (positions, 12 or 18, 8, 8) uint8; see :func:`outofcore.domains.chess.widening.show`.

    ``squares`` (positions, 4, 8) uint8: stored boards, ``states`` (positions, 4) uint8, ``mirrored`` (positions,)
    bool; ``mover`` shows the board from the side to move.
    """
    black = (states[:, 0] != 0)[:, None, None]
    board = _ranks(squares)
    pieces = torch.tensor(list(CODES.values()), dtype=torch.uint8, device=board.device)[None, :, None]
    if mover:
        board = torch.where(black, board.flip(1), board)
        pieces = torch.where(black, pieces.roll(6, 1), pieces)
    shown = (board[:, None] == pieces[..., None]).to(torch.uint8)
    if planes > shown.shape[1]:
        shown = torch.cat([shown, unpack(_state_planes(states, mover=mover))], 1)
    return torch.where(mirrored[:, None, None, None], shown.flip(3), shown)


def classify(squares: Tensor, states: Tensor, moves: Tensor, flips: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Classes (positions,) int64 of stored moves; see :func:`outofcore.domains.chess.widening.classify`.

    ``squares`` (positions, 4, 8) uint8, ``states`` (positions, 4) uint8, ``moves`` (positions,) int16 with the bits of
    unsigned words, ``flips`` (positions,) int64: exclusive or from the stored move to the move as shown.
    """
    code = moves.long() & 0xFFFF
    start, end = code & 63, code >> 6 & 63
    board, side = _ranks(squares).flatten(1), (states[:, 0] != 0) * BLACK
    king, rook = (board.gather(1, square[:, None])[:, 0] for square in (start, end))
    to_corner = (start & 7 == 4) & ((end & 7 == 7) | (end & 7 == 0))
    castles = to_corner & (king == KING + side) & (rook == ROOK + side)
    two_squares = start | start + torch.where(end > start, 2, -2) << 6
    index = torch.from_numpy(vocabulary.index.astype("int64")).to(squares.device)
    return index[torch.where(castles, two_squares, code) ^ flips]


def _ranks(squares: Tensor) -> Tensor:
    """(positions, 8, 8) uint8: pieces by rank and file."""
    return torch.stack([squares & 15, squares >> 4], 2).view(-1, 8, 8)


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
