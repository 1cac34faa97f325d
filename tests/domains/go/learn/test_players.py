"""Whose games they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from outofcore.domains.go.learn.players import PlayedGames, entries, find_players, read_games
from outofcore.domains.go.params import GoTrainSection
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
