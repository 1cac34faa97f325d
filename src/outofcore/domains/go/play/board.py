"""A compiled Go board: stones, captures, ko and suicide, with packed bits of both colours kept up to date."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Ints
from outofcore.system.compilation import inner_kernel, kernel

Cells = npt.NDArray[np.int8]
Bits = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

STRIDE = 27  # a board of up to 25 x 25 with a border on all sides
CELLS = STRIDE * STRIDE
EMPTY, OUTSIDE = 2, 3  # 0 and 1 are black and white stones
NO_KO = -1


def _words(count: int) -> Words:
    """Pseudo-random words: SplitMix64 (Steele, Lea and Flood 2014) from 0, the same on every machine."""
    with np.errstate(over="ignore"):
        word = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Words = word ^ (word >> np.uint64(31))
    return mixed


STONE_WORDS = _words(2 * CELLS).reshape(2, CELLS)
"""Zobrist words of a black and a white stone on each cell."""


class Board(NamedTuple):
    """A board in a frame, and room for the work of this module's functions."""

    cells: Cells  # (CELLS,): EMPTY, OUTSIDE or a colour; row r, column c is (r + 1) * STRIDE + c + 1
    bits: Bits  # (2, bytes): black and white stones, point r * frame + c, most significant bit first
    digest: Words  # (1,): exclusive or of the words of all stones
    marks: Ints  # (CELLS + 1,): the latest walk that has met each cell, and the number of walks
    stones: Ints  # (CELLS,): stones met by the latest walk
    notes: Ints  # (CELLS,)
    frame: int


def new_board(frame: int) -> Board:
    return Board(
        cells=np.empty(CELLS, np.int8),
        bits=np.zeros((2, (frame * frame + 7) // 8), np.uint8),
        digest=np.zeros(1, np.uint64),
        marks=np.zeros(CELLS + 1, np.int64),
        stones=np.empty(CELLS, np.int64),
        notes=np.empty(CELLS, np.int64),
        frame=frame,
    )


@kernel
def clear(board: Board, size: int) -> None:
    """Reset to an empty board."""
    board.cells[:] = OUTSIDE
    for row in range(size):
        for column in range(size):
            board.cells[(row + 1) * STRIDE + column + 1] = EMPTY
    board.bits[:] = 0
    board.digest[0] = 0


@kernel
def put(board: Board, cell: int, colour: int) -> None:
    """Set a cell to ``EMPTY`` or a colour, whatever it was, without captures."""
    cells, bits, digest = board.cells, board.bits, board.digest
    old = cells[cell]
    point = (cell // STRIDE - 1) * board.frame + cell % STRIDE - 1
    mask = np.uint8(0x80 >> (point & 7))
    if old < EMPTY:
        bits[old, point >> 3] &= ~mask
        digest[0] ^= STONE_WORDS[old, cell]
    if colour < EMPTY:
        bits[colour, point >> 3] |= mask
        digest[0] ^= STONE_WORDS[colour, cell]
    cells[cell] = colour


@kernel
def chain(board: Board, cell: int, enough: int) -> tuple[int, int]:
    """Walk the chain of the stone at ``cell`` until ``enough`` liberties are known.

    ``board.stones`` receives the stones met: the whole chain if it has fewer than ``enough`` liberties. Returns
    liberties (at most ``enough``) and stones.
    """
    cells, marks, stones = board.cells, board.marks, board.stones
    marks[CELLS] += 1
    walk = marks[CELLS]
    colour = cells[cell]
    stones[0] = cell
    marks[cell] = walk
    met, done, liberties = 1, 0, 0
    while done < met:
        stone = stones[done]
        done += 1
        for step in (-STRIDE, -1, 1, STRIDE):
            near = stone + step
            if marks[near] == walk:
                continue
            if cells[near] == EMPTY:
                marks[near] = walk
                liberties += 1
                if liberties == enough:
                    return liberties, met
            elif cells[near] == colour:
                marks[near] = walk
                stones[met] = near
                met += 1
    return liberties, met


@kernel
def play(board: Board, cell: int, colour: int) -> tuple[int, int, int]:
    """Play a stone, capture; returns stones captured, own stones lost, and the cell that ko forbids."""
    put(board, cell, colour)
    captured = 0
    taken = cell
    for step in (-STRIDE, -1, 1, STRIDE):
        near = cell + step
        if board.cells[near] == 1 - colour:
            liberties, met = chain(board, near, 1)
            if liberties == 0:
                for place in range(met):
                    put(board, board.stones[place], EMPTY)
                captured += met
                taken = near
    liberties, met = chain(board, cell, 2)
    if liberties == 0:
        for place in range(met):
            put(board, board.stones[place], EMPTY)
        return captured, met, NO_KO
    if captured == 1 and met == 1 and liberties == 1:
        return captured, 0, taken
    return captured, 0, NO_KO


@inner_kernel
def remove_dead(board: Board) -> int:
    """Remove all chains without liberties at once, as after setup; returns the number of stones."""
    cells, stones, dead = board.cells, board.stones, board.notes
    dead[:] = 0
    count = 0
    for cell in range(CELLS):
        if cells[cell] < EMPTY and not dead[cell]:
            liberties, met = chain(board, cell, 1)
            if liberties == 0:
                for place in range(met):
                    dead[stones[place]] = 1
                count += met
    for cell in range(CELLS):
        if dead[cell]:
            put(board, cell, EMPTY)
    return count
