"""Asking whose games these are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from outofcore.domains.go.learn.identification import choose_panel, identify, opening_maps, slots_of
from outofcore.domains.go.learn.players import PlayedGames, find_players, read_games
from outofcore.domains.go.learn.style import ge2e
from outofcore.domains.go.params import GoTrainSection
from outofcore.store.reader import Store


def games_of(sides: list[tuple[int, int]]) -> PlayedGames:
    count = len(sides)
    zeros = np.zeros(count, np.int64)
    keys = np.random.default_rng(0).permutation(count * 7)[:count].astype(np.int64) - 5
    return PlayedGames(keys, np.array(sides, np.int64), zeros, zeros, zeros, zeros.astype(bool))


def test_half_of_the_games_are_asked_with() -> None:
    games = games_of([(0, -1)] * 11 + [(-1, 1)] * 4 + [(0, 1)] * 3 + [(2, -1)])
    panel = choose_panel(games)
    assert np.bincount(panel.player).tolist() == [14, 7]  # a single game is no question
    assert [panel.asked[panel.player == who].sum() for who in (0, 1)] == [7, 3]
    assert (np.diff(panel.key) > 0).all()
    for key, slots in zip(panel.key, panel.slot, strict=True):
        sides = games.sides[games.key == key][0]
        for side, slot in zip(sides, slots, strict=True):
            assert slot < 0 if side in (-1, 2) else panel.player[slot] == side
    assert np.bincount(choose_panel(games, most=6).player).tolist() == [6, 6]


def test_slots_of_rows() -> None:
    games = games_of([(0, 1), (1, 0), (0, -1)])
    panel = choose_panel(games)
    keys = np.array([games.key[0], games.key[2], 10**6, games.key[2]])
    slots = slots_of(panel, keys, np.array([1, 0, 0, 1]))
    assert panel.player[slots[0]] == 1
    assert panel.player[slots[1]] == 0
    assert slots[2:].tolist() == [-1, -1]


def test_clear_styles_are_always_found() -> None:
    panel = choose_panel(games_of([(player, -1) for player in range(6) for _ in range(22)]))
    vectors = functional.one_hot(torch.from_numpy(panel.player)).double()
    answers = identify(vectors, panel)
    assert [(answer.games, answer.questions) for answer in answers] == [(1, 66), (5, 12), (10, 6)]
    assert all(answer.top1 == answer.top5 == 1.0 for answer in answers)


def test_players_whom_a_model_does_not_tell_apart_are_found_by_chance() -> None:
    panel = choose_panel(games_of([(player, -1) for player in range(8) for _ in range(4)]))
    (answer,) = identify(torch.ones(len(panel.player), 4), panel)
    assert (answer.top1, answer.top5) == (pytest.approx(1 / 8), pytest.approx(5 / 8))


def test_more_games_tell_more() -> None:
    panel = choose_panel(games_of([(player, -1) for player in range(20) for _ in range(40)]))
    generator = torch.Generator().manual_seed(0)
    style = torch.randn(20, 16, generator=generator)
    vectors = style[torch.from_numpy(panel.player)] + 3 * torch.randn(len(panel.player), 16, generator=generator)
    top1 = [answer.top1 for answer in identify(vectors, panel)]
    assert 0.1 < top1[0] < top1[1] < top1[2]


def test_games_that_were_not_seen_count_for_nobody() -> None:
    panel = choose_panel(games_of([(player, -1) for player in range(3) for _ in range(6)]))
    vectors = functional.one_hot(torch.from_numpy(panel.player)).float()
    vectors[torch.from_numpy(panel.player == 2) & ~torch.from_numpy(panel.asked)] = 0
    assert identify(vectors, panel)[0].questions == 6
    assert identify(torch.zeros_like(vectors), panel) == []


def test_heat_maps_count_the_opening_moves_of_a_side(store: Store) -> None:
    names = find_players(store, GoTrainSection(min_games=10))
    panel = choose_panel(read_games(store, "val", names))
    maps = opening_maps(store, "val", panel, 19).numpy()
    state, move, game = (store.rows("val")[name].read() for name in ("state", "move", "game"))
    expected = np.zeros_like(maps)
    places = {int(key): slots for key, slots in zip(panel.key, panel.slot, strict=True)}
    for row in range(len(move)):
        colour = int(state[row, 0])
        slot = places[int(game[row])][colour]
        if slot >= 0 and state[row, 3] < 50 and move[row] < 361:
            expected[slot, colour * 361 + move[row]] += 1
    assert np.array_equal(maps, expected)


def slow_ge2e(games: torch.Tensor, player: list[int]) -> float:
    total = 0.0
    for row, owner in enumerate(player):
        if player.count(owner) < 2:
            continue
        scores = []
        for other in sorted(set(player)):
            members = [games[at] for at in range(len(player)) if player[at] == other and at != row]
            scores.append(4.0 * functional.cosine_similarity(games[row], torch.stack(members).sum(0), dim=0) - 1.0)
        total -= float(torch.stack(scores).log_softmax(0)[sorted(set(player)).index(owner)])
    return total


@pytest.mark.parametrize("player", [[3, 3, 5, 5, 5], [1, 0, 1, 0, 2, 2, 2], [7, 7]])
def test_the_loss_is_that_of_the_paper(player: list[int]) -> None:
    games = functional.normalize(torch.randn(len(player), 8, generator=torch.Generator().manual_seed(1)), dim=1)
    owners = torch.tensor(player)
    loss, count = ge2e(games, owners, torch.tensor(4.0), torch.tensor(-1.0))
    assert float(loss) == pytest.approx(slow_ge2e(games, player), rel=1e-5)
    assert int(count) == len(player)


def test_single_games_do_not_count() -> None:
    games = functional.normalize(torch.randn(5, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    owners = torch.tensor([0, 1, 1, 2, 2])
    assert int(ge2e(games, owners, torch.tensor(4.0), torch.tensor(0.0))[1]) == 4
