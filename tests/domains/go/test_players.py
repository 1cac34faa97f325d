"""Whose games they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from outofcore.domains.go.params import GoTrainSection
from outofcore.domains.go.players import (
    PlayedGames,
    choose_panel,
    entries,
    find_players,
    identify,
    look_up,
    opening_maps,
    read_games,
)
from outofcore.domains.go.sample import PLAYERS
from outofcore.errors import DamagedStore, ParamsError
from outofcore.store.reader import Store, open_store
from tests.store.forging import forge_column

NAMES = {player.name for player in PLAYERS}
SETTINGS = GoTrainSection(min_games=10)


def test_files_belong_to_players(store: Store) -> None:
    names = find_players(store, SETTINGS)
    # Games of one of them are in another encoding, and the last file has lost what it shares with all others.
    assert set(names) == NAMES
    assert list(names) == sorted(names)


def test_everybody_by_name(store: Store) -> None:
    assert set(find_players(store, GoTrainSection(players="names", min_games=10))) == {*NAMES, "guest"}


def test_too_few_players(store: Store) -> None:
    with pytest.raises(ParamsError, match=r"go\.train\.min_games"):
        find_players(store, GoTrainSection(min_games=10_000))


def test_a_game_of_two_players_belongs_to_both(store: Store) -> None:
    names = find_players(store, SETTINGS)
    games = read_games(store, "train", names)
    both = (games.sides >= 0).all(1)
    assert both.sum() >= 5
    black = store.sequences("train")["black"].read()
    assert all(
        games.sides[row, 0] == (names.index(black[row]) if black[row] in names else -1) for row in range(len(black))
    )
    table = entries(games, 1, None)
    assert len(table["group"]) == (games.sides >= 0).sum()


def test_entries_are_rows_with_the_player_to_move(store: Store) -> None:
    names = find_players(store, SETTINGS)
    games = read_games(store, "train", names)
    state, game = store.rows("train")["state"].read(), store.rows("train")["game"].read()
    owners = {int(key): sides for key, sides in zip(games.key, games.sides, strict=True)}
    for first_moves in (None, 21):
        table = entries(games, 5, first_moves)
        assert (np.diff(table["group"]) >= 0).all()
        for group, first, count, step in zip(*table.values(), strict=True):
            rows = first + step * np.arange(count)
            assert len(set(game[rows])) == 1
            assert all(owners[int(game[row])][state[row, 0]] == group for row in rows)
            assert count >= 5
            if first_moves:
                assert state[rows[-1], 3] < first_moves


def test_games_that_do_not_cover_the_rows_are_refused(store: Store, tmp_path: Path) -> None:
    names = find_players(store, SETTINGS)
    root = Path(shutil.copytree(store.root, tmp_path / "go.zarr"))
    starts = store.sequences("train")["start"].read().tolist()
    forge_column(root, "train/sequences/start", [*starts[:-1], len(store.rows("train")) + 5])
    with pytest.raises(DamagedStore, match="the sequences of train do not cover its"):
        read_games(open_store(root), "train", names)


def test_games_without_turns_are_left_out() -> None:
    games = PlayedGames(
        key=np.arange(4),
        sides=np.array([[0, 1], [0, -1], [1, 1], [-1, 0]]),
        start=np.array([0, 10, 20, 30]),
        length=np.array([10, 9, 3, 2]),
        first_player=np.array([0, 1, 0, 0]),
        alternating=np.array([True, True, False, True]),
    )
    table = entries(games, 2, None)
    assert {name: column.tolist() for name, column in table.items()} == {
        "group": [0, 0, 1],
        "first": [0, 11, 1],
        "count": [5, 4, 5],
        "step": [2, 2, 2],
    }


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
    key, table = torch.from_numpy(panel.key), torch.from_numpy(panel.slot)
    slots = look_up(key, table, torch.from_numpy(keys), torch.tensor([1, 0, 0, 1]))[0]
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
