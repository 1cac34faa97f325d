"""The engine: games to boards and moves with a Rust reader, millions of positions per second.

It receives one string per game with the start position and the text after the tags. It applies the rules of chess with
shakmaty; an odd game, and one with a word that it cannot turn into a legal move, goes to the oracle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import chess
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import rust_pgn_reader_python_binding as reader

from outofcore.domains.chess.codes import BLACK_TO_MOVE, CHESS960, INNER_ROOK_SHIFT, NO_EN_PASSANT, WHITE_TO_MOVE
from outofcore.domains.chess.pgn.facts import Facts, packed, spanned
from outofcore.domains.chess.pgn.games import Games, decoded
from outofcore.ndarrays import Bytes, Ints
from outofcore.system.compilation import inner_kernel, kernel

_WHITE_KING, _BLACK_KING = 6, 12
"""The engine's codes: 0 is an empty square, 1 to 12 are the pieces of the schema, a rook two before its king."""
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
    """Replay the chosen games, of which there is at least one; odd ones are not readable."""
    texts = pa.chunked_array([_texts(games, chosen, facts)])
    (chunk,) = reader.parse_games(texts, num_threads=1).chunks
    moves = np.diff(chunk.move_offsets.astype(np.int64))
    return Parsed(
        chunk.valid & ~games.odd[chosen] & (moves == games.plies[chosen]),
        chunk.boards.reshape(-1, 64),
        *(getattr(chunk, name) for name in Parsed._fields[2:]),
    )


def fill_rows(
    parsed: Parsed, games: Games, chosen: Ints, facts: Facts, first_rows: Ints, rows: dict[str, npt.NDArray[Any]]
) -> None:
    """Write the readable games into ``rows``, from row ``first_rows`` of each on."""
    ranks, is_chess960 = parsed.boards.view(np.uint64), facts.variant[chosen] == CHESS960
    rooks = np.zeros(len(chosen), np.uint64)
    for place in np.flatnonzero(is_chess960).tolist():
        rooks[place] = _castling_rooks(games, int(chosen[place]))
    squares = rows["squares"].reshape(-1, 32).view(np.uint64)  # of the same memory
    _fill(parsed, ranks, is_chess960, rooks, first_rows, squares, rows["state"], rows["move"])


def _texts(games: Games, chosen: Ints, facts: Facts) -> pa.Array:
    """Start position, moves and comments of the games as Arrow strings; another game in place of an odd one."""
    data, bodies = games.data, games.bodies[chosen]
    special = (games.spans("FEN")[chosen, 0] >= 0) | (facts.variant[chosen] == CHESS960) | games.foreign[chosen]
    if np.any(special | games.odd[chosen]):
        data, bodies = packed(
            "e4"
            if games.odd[game]
            else start_tags(games, int(facts.variant[game]), game) + decoded(games.data[begin:end].tobytes())
            for game, (begin, end) in zip(chosen.tolist(), bodies.tolist(), strict=True)
        )
    return spanned(data, bodies).view(pa.string())


def start_tags(games: Games, variant: int, game: int) -> str:
    """Tags for the start position and variant; empty for a standard game."""
    fen = games.start_fen(game)
    tags = f'[SetUp "1"]\n[FEN "{fen}"]\n' if fen else ""
    if variant == CHESS960:
        tags += '[Variant "Chess960"]\n'
    return tags + "\n" * bool(tags)


def _castling_rooks(games: Games, game: int) -> int:
    """Rooks that may castle in a Chess960 game: the engine reports rights by the corners."""
    try:
        return chess.Board(games.start_fen(game) or chess.STARTING_FEN, chess960=True).clean_castling_rights()
    except ValueError:  # invalid position, which the engine refuses as well
        return 0


@inner_kernel
def _stored(rank: np.uint64) -> np.uint64:
    """A rank of the engine's codes with those of the schema: Black's are two higher."""
    return rank + ((rank + _BLACKS & _HIGH_BITS) >> np.uint64(6))


@inner_kernel
def _squares_of(board: Bytes, piece: int) -> np.uint64:
    """Bitboard of the squares where a piece of the engine is."""
    squares = np.uint64(0)
    for square in range(64):
        squares |= np.uint64(board[square] == piece) << np.uint64(square)
    return squares


@inner_kernel
def _rights(rooks: np.uint64, board: Bytes) -> int:
    """Stored castling rights, by the side of its king on which each castling rook is."""
    rights = 0
    one = np.uint64(1)
    first_rank, last_rank = np.uint64(0xFF), np.uint64(0xFF) << np.uint64(56)
    for bit, rank, king_code in ((1, first_rank, _WHITE_KING), (4, last_rank, _BLACK_KING)):
        king, own = _squares_of(board, king_code), _squares_of(board, king_code - 2)
        towards_h, towards_a = rank & ~(king | (king - one)), rank & (king - one)
        rook = rooks & towards_h
        if rook:
            rights |= bit
            if own & towards_h & ~(rook | (rook - one)):
                rights |= bit << INNER_ROOK_SHIFT
        rook = rooks & towards_a
        if rook:
            rights |= 2 * bit
            if own & towards_a & (rook - one):
                rights |= 2 * bit << INNER_ROOK_SHIFT
    return rights


@inner_kernel
def _castling_rook(boards: Bytes, before: int, origin: int, target: int) -> int:
    """Square of the rook with which a king castles from ``origin`` to ``target``; -1 if the move is another."""
    king = boards[before, origin]
    if king != _WHITE_KING and king != _BLACK_KING:
        return -1
    rook, rank = king - 2, origin & 56
    for square in range(rank, rank + 8):
        if boards[before, square] == rook and boards[before + 1, square] != rook:
            return square
    if target & 56 == rank and abs(target - origin) > 1:  # the rook was at its new place already
        return rank + (5 if target > origin else 3)
    return -1


@kernel
def _fill(
    parsed: Parsed,
    ranks: npt.NDArray[np.uint64],
    is_chess960: npt.NDArray[np.bool_],
    castling_rooks: npt.NDArray[np.uint64],
    first_rows: Ints,
    out_squares: npt.NDArray[np.uint64],
    out_state: Bytes,
    out_move: npt.NDArray[np.uint16],
) -> None:
    readable, boards, castling, en_passant = parsed.readable, parsed.boards, parsed.castling, parsed.en_passant
    halfmove_clock, turn, from_squares = parsed.halfmove_clock, parsed.turn, parsed.from_squares
    to_squares, promotions = parsed.to_squares, parsed.promotions
    position_offsets, move_offsets = parsed.position_offsets, parsed.move_offsets
    for game in range(first_rows.size):
        if not readable[game]:
            continue
        row = first_rows[game]
        rooks = castling_rooks[game]
        first_position, first_move = np.int64(position_offsets[game]), np.int64(move_offsets[game])
        for ply in range(np.int64(move_offsets[game + 1]) - first_move):
            position: Any = first_position + ply
            for pair in range(4):
                lower, upper = _stored(ranks[position, 2 * pair]), _stored(ranks[position, 2 * pair + 1])
                out_squares[row, pair] = lower | upper << np.uint64(4)
            out_state[row, 1] = 0
            out_state[row, 0] = WHITE_TO_MOVE if turn[position] else BLACK_TO_MOVE
            if is_chess960[game]:
                out_state[row, 1] = _rights(rooks, boards[position])
            else:
                for right in range(4):
                    out_state[row, 1] |= castling[position, right] << right
            file = en_passant[position]
            out_state[row, 2] = file if file >= 0 else NO_EN_PASSANT
            out_state[row, 3] = halfmove_clock[position]
            origin: Any = np.int64(from_squares[first_move + ply])
            target: Any = np.int64(to_squares[first_move + ply])
            if is_chess960[game]:
                rook = _castling_rook(boards, position, origin, target)
                target = rook if rook >= 0 else target
            promotion: Any = np.int64(promotions[first_move + ply]) - 1
            if promotion < 0:
                promotion = np.int64(0)
            out_move[row] = origin | target << 6 | promotion << 12
            rooks &= ~(np.uint64(1) << np.uint64(origin) | np.uint64(1) << np.uint64(target))
            if boards[position, origin] == _WHITE_KING or boards[position, origin] == _BLACK_KING:
                rooks &= ~(np.uint64(0xFF) << np.uint64(origin & 56))
            row += 1
