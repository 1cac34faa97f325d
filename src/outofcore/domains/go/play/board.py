"""A Go board in machine code: stones, captures, ko, suicide, with the packed bits of both colours kept up to date."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

STRIDE = 27  # a board of up to 25 x 25 with a border on all sides
CELLS = STRIDE * STRIDE
EMPTY, OUTSIDE = 2, 3  # 0 and 1 are black and white stones
NO_KO = -1


def _words(count: int) -> npt.NDArray[np.uint64]:
    """Pseudo-random words: SplitMix64 (Steele, Lea and Flood 2014) from 0, the same on every machine."""
    with np.errstate(over="ignore"):
        word = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: npt.NDArray[np.uint64] = word ^ (word >> np.uint64(31))
    return mixed


STONE_WORDS = _words(2 * CELLS).reshape(2, CELLS)
"""Zobrist words of a black and a white stone on each cell."""


@njit(nogil=True, cache=True)
def clear(cells: npt.NDArray[np.int8], bits: npt.NDArray[np.uint8], digest: npt.NDArray[np.uint64], size: int) -> None:
    """An empty board.

    Parameters
    ----------
    cells
        (``CELLS``,): ``EMPTY``, ``OUTSIDE``, or the colour of a stone; row r, column c is (r + 1) * STRIDE + c + 1.
    bits
        (2, bytes): the black and the white stones, point r * frame + c as bit, most significant first.
    digest
        (1,): exclusive or of the words of all stones.
    size
        Side of the board.
    """
    cells[:] = OUTSIDE
    for row in range(size):
        for column in range(size):
            cells[(row + 1) * STRIDE + column + 1] = EMPTY
    bits[:] = 0
    digest[0] = 0


@njit(nogil=True, cache=True)
def put(
    cells: npt.NDArray[np.int8],
    bits: npt.NDArray[np.uint8],
    digest: npt.NDArray[np.uint64],
    frame: int,
    cell: int,
    colour: int,
) -> None:
    """Make a cell ``EMPTY`` or a stone of a colour, whatever it was; nothing is captured."""
    old = cells[cell]
    point = (cell // STRIDE - 1) * frame + cell % STRIDE - 1
    mask = np.uint8(0x80 >> (point & 7))
    if old < EMPTY:
        bits[old, point >> 3] &= ~mask
        digest[0] ^= STONE_WORDS[old, cell]
    if colour < EMPTY:
        bits[colour, point >> 3] |= mask
        digest[0] ^= STONE_WORDS[colour, cell]
    cells[cell] = colour


@njit(nogil=True, cache=True)
def chain(
    cells: npt.NDArray[np.int8],
    marks: npt.NDArray[np.int64],
    stones: npt.NDArray[np.int64],
    cell: int,
    enough: int,
) -> tuple[int, int]:
    """Walk the chain of the stone at ``cell`` until ``enough`` liberties are known.

    Parameters
    ----------
    marks
        (``CELLS`` + 1,): cells met in this walk carry its number, which stands last.
    stones
        (``CELLS``,): filled with the stones met, the whole chain where fewer liberties than ``enough`` were found.

    Returns
    -------
    Liberties found (at most ``enough``), stones met.
    """
    marks[CELLS] += 1
    walk = marks[CELLS]
    colour = cells[cell]
    stones[0] = cell
    marks[cell] = walk
    met, done, liberties = 1, 0, 0
    while done < met:
        here = stones[done]
        done += 1
        for step in (-STRIDE, -1, 1, STRIDE):
            near = here + step
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


@njit(nogil=True, cache=True)
def play(
    cells: npt.NDArray[np.int8],
    bits: npt.NDArray[np.uint8],
    digest: npt.NDArray[np.uint64],
    marks: npt.NDArray[np.int64],
    stones: npt.NDArray[np.int64],
    frame: int,
    cell: int,
    colour: int,
) -> tuple[int, int, int]:
    """Put a stone on an empty cell, take the opponent's chains without liberty, else its own.

    Returns
    -------
    Stones captured; stones of its own lost (suicide); the cell that simple ko forbids the opponent, or ``NO_KO``.
    """
    put(cells, bits, digest, frame, cell, colour)
    captured = 0
    taken = cell
    for step in (-STRIDE, -1, 1, STRIDE):
        near = cell + step
        if cells[near] == 1 - colour:
            liberties, met = chain(cells, marks, stones, near, 1)
            if liberties == 0:
                for place in range(met):
                    put(cells, bits, digest, frame, stones[place], EMPTY)
                captured += met
                taken = near
    liberties, met = chain(cells, marks, stones, cell, 2)
    if liberties == 0:
        for place in range(met):
            put(cells, bits, digest, frame, stones[place], EMPTY)
        return captured, met, NO_KO
    if captured == 1 and met == 1 and liberties == 1:
        return captured, 0, taken
    return captured, 0, NO_KO


@njit(nogil=True, cache=True)
def remove_dead(
    cells: npt.NDArray[np.int8],
    bits: npt.NDArray[np.uint8],
    digest: npt.NDArray[np.uint64],
    marks: npt.NDArray[np.int64],
    stones: npt.NDArray[np.int64],
    frame: int,
) -> int:
    """Take all chains without liberty off at once, as after setup; returns how many stones."""
    dead = np.zeros(CELLS, np.bool_)
    count = 0
    for cell in range(CELLS):
        if cells[cell] < EMPTY and not dead[cell]:
            liberties, met = chain(cells, marks, stones, cell, 1)
            if liberties == 0:
                for place in range(met):
                    dead[stones[place]] = True
                count += met
    for cell in range(CELLS):
        if dead[cell]:
            put(cells, bits, digest, frame, cell, EMPTY)
    return count


@njit(nogil=True, cache=True)
def liberty_planes(
    cells: npt.NDArray[np.int8],
    marks: npt.NDArray[np.int64],
    stones: npt.NDArray[np.int64],
    frame: int,
    planes: npt.NDArray[np.uint8],
) -> None:
    """Mark the stones of chains with 1, 2 and 3 liberties in ``planes`` (3, bytes), packed as in :func:`clear`."""
    planes[:] = 0
    done = np.zeros(CELLS, np.bool_)
    for cell in range(CELLS):
        if cells[cell] < EMPTY and not done[cell]:
            liberties, met = chain(cells, marks, stones, cell, CELLS)
            for place in range(met):
                stone = stones[place]
                done[stone] = True
                if 1 <= liberties <= 3:
                    point = (stone // STRIDE - 1) * frame + stone % STRIDE - 1
                    planes[liberties - 1, point >> 3] |= np.uint8(0x80 >> (point & 7))
