"""Numbers for pieces, rights, results and what is missing, as they are stored; and their bounds."""

from __future__ import annotations

CODES = dict(zip("PNBRQKpnbrqk", (1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14), strict=True))
"""Pieces as they are stored, in the order of planes, by the letters of FEN; 0 is an empty square."""

STATE = ("side_to_move", "castling", "en_passant_file", "halfmove_clock")
WHITE_TO_MOVE, BLACK_TO_MOVE = 0, 1
CASTLING_BITS = {"K": 1, "Q": 2, "k": 4, "q": 8}
INNER_ROOK_SHIFT = 4
"""Shift of a castling bit whose right, in Chess960, belongs to the rook next to the king, not the outermost."""
NO_EN_PASSANT = 255
LARGEST_HALFMOVE_CLOCK = 255
LARGEST_PLY = 65535
NO_CLOCK, NO_EVALUATION, NO_MATE = -1, -32768, 0
LARGEST_CLOCK, LARGEST_EVALUATION, LARGEST_MATE = 2**31 - 1, 32766, 127
MATED = 32767
"""Evaluation of a position with a mate, in centipawns; negative if Black mates."""
UNFINISHED = -128
"""Result of a game that has none."""
NO_RESULT, WHITE_WINS, DRAW, BLACK_WINS, UNKNOWN_RESULT, CONFLICT = 0, 1, 2, 3, 4, 5
"""Result of a text: none, ``1-0``, ``1/2-1/2``, ``0-1``, ``*``, and several that differ."""
STANDARD, CHESS960, OTHER_VARIANT = 0, 1, 255
VARIANT_NAMES = {STANDARD: "standard", CHESS960: "chess960"}
