"""A compiled Go board: stones, captures, ko and suicide, with packed bits of both colours kept up to date."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outofcore.compilation import njit

Cells = npt.NDArray[np.int8]
Bits = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
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


@njit(nogil=True, cache=True)
def clear(cells: Cells, bits: Bits, digest: Words, size: int) -> None:
    """Reset to an empty board.

    ``cells`` (``CELLS``,) is ``EMPTY``, ``OUTSIDE`` or a colour; row r, column c is (r + 1) * STRIDE + c + 1. ``bits``
    (2, bytes) are black and white stones, point r * frame + c, most significant bit first. ``digest`` (1,) is the
    exclusive or of the words of all stones.
    """
    cells[:] = OUTSIDE
    for row in range(size):
        for column in range(size):
            cells[(row + 1) * STRIDE + column + 1] = EMPTY
    bits[:] = 0
    digest[0] = 0


@njit(nogil=True, cache=True)
def put(cells: Cells, bits: Bits, digest: Words, frame: int, cell: int, colour: int) -> None:
    """Set a cell to ``EMPTY`` or a colour, whatever it was, without captures."""
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
def chain(cells: Cells, marks: Ints, stones: Ints, cell: int, enough: int) -> tuple[int, int]:
    """Walk the chain of the stone at ``cell`` until ``enough`` liberties are known.

    ``marks`` (``CELLS`` + 1,) holds the walk's number, stored last, in all cells met. ``stones`` (``CELLS``,) receives
    the stones met: the whole chain if it has fewer than ``enough`` liberties. Returns liberties (at most ``enough``)
    and stones.
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
    cells: Cells, bits: Bits, digest: Words, marks: Ints, stones: Ints, frame: int, cell: int, colour: int
) -> tuple[int, int, int]:
    """Play a stone, capture; returns stones captured, own stones lost, and the cell that ko forbids."""
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
def remove_dead(cells: Cells, bits: Bits, digest: Words, marks: Ints, stones: Ints, frame: int) -> int:
    """Remove all chains without liberties at once, as after setup; returns the number of stones."""
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
def liberty_planes(cells: Cells, marks: Ints, stones: Ints, frame: int, planes: Bits) -> None:
    """Mark stones of chains with 1, 2 and 3 liberties in ``planes`` (3, bytes), packed as in :func:`clear`."""
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
