"""Stored positions -> tensors: planes, move targets, values and masks of legal moves."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

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
        description="mirror the board left to right, in half of the training samples without castling rights "
        "(the mirror image of a castling right is no legal chess)",
    )
