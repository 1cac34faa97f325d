"""The engine: games to boards and moves with a Rust reader, millions of positions per second.

It receives one string per game with the start position and the text after the tags. It applies the rules of chess with
shakmaty; a game of Chess960, an odd one, and one with a word that it cannot turn into a legal move go to the oracle.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import rust_pgn_reader_python_binding as reader

from outofcore.domains.chess.codes import BLACK_TO_MOVE, CHESS960, NO_EN_PASSANT, STANDARD, WHITE_TO_MOVE
from outofcore.domains.chess.pgn.facts import Facts, packed, spanned
from outofcore.domains.chess.pgn.games import Games, decoded
from outofcore.ndarrays import Bytes, Ints
from outofcore.system.compilation import inner_kernel, kernel

_BLACKS = np.uint64(0x7979_7979_7979_7979)
"""Added to a rank of the engine's codes, it sets the highest bit of those from 7 on."""
_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)


class Parsed(NamedTuple):
    """Engine results for n games; a game has one more position than moves."""

    readable: npt.NDArray[np.bool_]  # (n,): every move is legal
    boards: Bytes  # (positions, 64)
    castling: npt.NDArray[np.bool_]  # (positions, 4)
    en_passant: npt.NDArray[np.int8]
    halfmove_clock: Bytes
    turn: npt.NDArray[np.bool_]
    from_squares: Bytes  # (moves,)
    to_squares: Bytes
    promotions: npt.NDArray[np.int8]
    position_offsets: npt.NDArray[np.uint32]  # (n + 1,)
    move_offsets: npt.NDArray[np.uint32]


def parse(games: Games, chosen: Ints, facts: Facts) -> Parsed:
    """Replay the chosen games, of which there is at least one; those for the oracle are not readable."""
    for_oracle = games.odd[chosen] | (facts.variant[chosen] == CHESS960)
    texts = pa.chunked_array([_texts(games, chosen, for_oracle)])
    (chunk,) = reader.parse_games(texts, num_threads=1).chunks
    moves = np.diff(chunk.move_offsets.astype(np.int64))
    return Parsed(
        chunk.valid & ~for_oracle & (moves == games.plies[chosen]),
        chunk.boards.reshape(-1, 64),
        *(getattr(chunk, name) for name in Parsed._fields[2:]),
    )


def fill_rows(parsed: Parsed, first_rows: Ints, rows: dict[str, npt.NDArray[Any]]) -> None:
    """Write the readable games into ``rows``, from row ``first_rows`` of each on."""
    squares = rows["squares"].reshape(-1, 32).view(np.uint64)  # of the same memory
    _fill(parsed, parsed.boards.view(np.uint64), first_rows, squares, rows["state"], rows["move"])


def _texts(games: Games, chosen: Ints, for_oracle: npt.NDArray[np.bool_]) -> pa.Array:
    """Start position, moves and comments of the games as Arrow strings; of those for the oracle, one other move."""
    bodies = games.bodies[chosen]
    if not np.any((games.spans("FEN")[chosen, 0] >= 0) | for_oracle):
        with suppress(pa.ArrowInvalid):  # a comment is not in UTF-8
            return spanned(games.data, bodies).cast(pa.string())
    data, bodies = packed(
        "e4" if skipped else start_tags(games, STANDARD, game) + decoded(games.data[begin:end].tobytes())
        for game, skipped, (begin, end) in zip(chosen.tolist(), for_oracle.tolist(), bodies.tolist(), strict=True)
    )
    return spanned(data, bodies).view(pa.string())


def start_tags(games: Games, variant: int, game: int) -> str:
    """Tags for the start position and variant; empty for a standard game."""
    fen = games.start_fen(game)
    tags = f'[SetUp "1"]\n[FEN "{fen}"]\n' if fen else ""
    if variant == CHESS960:
        tags += '[Variant "Chess960"]\n'
    return tags + "\n" * bool(tags)


@inner_kernel
def _stored(rank: np.uint64) -> np.uint64:
    """A rank of the engine's codes with those of the schema: Black's are two higher."""
    return rank + ((rank + _BLACKS & _HIGH_BITS) >> np.uint64(6))


@kernel
def _fill(
    parsed: Parsed,
    ranks: npt.NDArray[np.uint64],
    first_rows: Ints,
    out_squares: npt.NDArray[np.uint64],
    out_state: Bytes,
    out_move: npt.NDArray[np.uint16],
) -> None:
    castling, en_passant, halfmove_clock, turn = parsed.castling, parsed.en_passant, parsed.halfmove_clock, parsed.turn
    from_squares, to_squares, promotions = parsed.from_squares, parsed.to_squares, parsed.promotions
    for game in range(first_rows.size):
        if not parsed.readable[game]:
            continue
        row, first_move = first_rows[game], np.int64(parsed.move_offsets[game])
        first_position = np.int64(parsed.position_offsets[game])
        for ply in range(np.int64(parsed.move_offsets[game + 1]) - first_move):
            position: Any = first_position + ply
            for pair in range(4):
                lower, upper = _stored(ranks[position, 2 * pair]), _stored(ranks[position, 2 * pair + 1])
                out_squares[row, pair] = lower | upper << np.uint64(4)
            out_state[row, 0] = WHITE_TO_MOVE if turn[position] else BLACK_TO_MOVE
            out_state[row, 1] = 0
            for right in range(4):
                out_state[row, 1] |= castling[position, right] << right
            file = en_passant[position]
            out_state[row, 2] = file if file >= 0 else NO_EN_PASSANT
            out_state[row, 3] = halfmove_clock[position]
            origin: Any = np.int64(from_squares[first_move + ply])
            target: Any = np.int64(to_squares[first_move + ply])
            promotion: Any = np.int64(max(promotions[first_move + ply] - 1, 0))
            out_move[row] = origin | target << 6 | promotion << 12
            row += 1
