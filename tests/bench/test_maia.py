"""Networks that others published read our batches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import maia


def test_planes_of_lc0_are_those_of_the_board() -> None:
    planes = torch.zeros(1, 119, 8, 8, dtype=torch.uint8)
    planes[0, 5, 0, 4] = 1  # the mover's king
    planes[0, 112], planes[0, 114], planes[0, 118] = 1, 1, 7  # White, castling on the king's side, seven half-moves
    made = maia.lc0(planes)[0]
    assert made.shape == (112, 8, 8)
    assert made[5, 0, 4] == 1
    assert {plane for plane in range(112) if (made[plane] == 1).all()} == {105, 111}
    assert (made[109] == 7).all()
    assert (made[108] == 0).all()


def test_each_move_has_a_cell_of_its_own() -> None:
    cells = maia.policy_cells()
    assert len(cells) == len(set(cells.values())) == 1858  # moves of lc0's policy


@pytest.mark.data
@pytest.mark.timeout(300)
def test_published_networks_predict_as_their_authors_say(real_data: Path) -> None:
    folder = real_data / "chess" / "maia"
    network = maia.Maia(folder / "maia-1500.pb.gz")
    sides = {
        "network": network,
        "no history": lambda planes: network(maia.without_history(planes)),
        "upside down": lambda planes: network(planes.flip(2)),
    }
    elo, hits = maia.judged(folder / "games.pgn", sides, 600)
    assert len(elo) >= 600
    assert 0.46 < hits["network"].mean() < 0.6  # 0.528 of 20,000
    assert hits["no history"].mean() < 0.33
    assert hits["upside down"].mean() < 0.12
