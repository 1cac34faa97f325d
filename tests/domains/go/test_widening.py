"""Where points go under each symmetry, by coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from outofcore.domains.go.widening import OFF_BOARD, SYMMETRIES, tables

FRAME, SIZES = 9, (7, 9)


def moved(symmetry: int, size: int, row: int, column: int) -> tuple[int, int]:
    """Transposed, then upside down, then left to right, by the bits of the symmetry."""
    if symmetry & 1:
        row, column = column, row
    if symmetry & 2:
        row = size - 1 - row
    if symmetry & 4:
        column = size - 1 - column
    return row, column


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("symmetry", range(8))
def test_every_point_goes_where_its_coordinates_say(size: int, symmetry: int) -> None:
    source, target = tables(FRAME, SIZES)
    for row, column in np.ndindex(FRAME, FRAME):
        point = row * FRAME + column
        if max(row, column) >= size:
            assert target[size, symmetry, point] == OFF_BOARD
            assert source[size, symmetry, point] == FRAME * FRAME
        else:
            new_row, new_column = moved(symmetry, size, row, column)
            assert target[size, symmetry, point] == new_row * FRAME + new_column
            assert source[size, symmetry, new_row * FRAME + new_column] == point
    assert target[size, symmetry, FRAME * FRAME] == FRAME * FRAME  # a pass


def test_all_eight_are_there_and_no_board_that_does_not_occur() -> None:
    source, target = tables(FRAME, SIZES)
    assert SYMMETRIES == 8
    assert (source.dtype, source.shape) == (np.uint16, (26, 8, 81))
    assert (target.dtype, target.shape) == (np.int16, (26, 8, 82))
    assert len(np.unique(target[9], axis=0)) == 8
    absent = [size for size in range(26) if size not in SIZES]
    assert (source[absent] == 81).all()
    assert (target[absent, :, :81] == OFF_BOARD).all()
    assert (target[:, :, 81] == 81).all()
