"""Which positions a model gets most wrong, and how its probabilities are shown."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from outofcore.domains.boards.gallery import mistakes_of
from outofcore.domains.gallery import Picture


def test_each_game_shows_its_least_expected_move_and_probabilities_up_to_1() -> None:
    table = SimpleNamespace(read=lambda start, _: {"row": start})
    games = np.array([0, 2, 3]), np.array([2, 1, 1])
    store = SimpleNamespace(extents=lambda _: games, rows=lambda _: table)
    shares = torch.tensor([[0.5, 0.5], [0.002, 0.998], [0.25, 0.75], [0.0, 1.0]])
    batch = {"move": torch.zeros(4, dtype=torch.int64)}

    def draw(game, row, prediction):
        played, other = prediction["move"].tolist()
        picture = Picture(title=f"game {game}, row {row['row']}", alt="", svg="")
        return picture, {"probability": played, "best": {"other": other}}

    pictures = mistakes_of(SimpleNamespace(target="move"), store, "val", [(batch, {"move": shares})], draw)
    assert [picture.title.replace("\N{NO-BREAK SPACE}", " ") for picture in pictures] == [
        "game 2, row 3. Probability of that move: 0 %; of the model's best: other 100 %",
        "game 0, row 1. Probability of that move: 0.2 %; of the model's best: other 99.8 %",
        "game 1, row 2. Probability of that move: 25 %; of the model's best: other 75 %",
    ]
