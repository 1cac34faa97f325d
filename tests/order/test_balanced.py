"""Batches of groups x entries x rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outofcore.errors import ParamsError, StateError
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.balanced import Balanced, BalancedSampler
from outofcore.order.windows import Window, Windows
from tests.loading.conftest import MakeStore

GAMES, MOVES, PLAYERS = 120, 25, 6
LENGTHS = [MOVES] * GAMES


def entries(**changes: Any) -> dict[str, Any]:
    """Every game belongs to two players; each has every second row of it."""
    game = np.arange(GAMES)
    black, white = game * PLAYERS // GAMES, (game + 1) % PLAYERS
    table = {
        "group": np.concatenate([black, white]) + 100,
        "first": np.concatenate([game * MOVES, game * MOVES + 1]),
        "count": np.repeat([13, 12], GAMES),
        "step": np.full(2 * GAMES, 2),
    }
    return {**table, "groups": 4, "entries": 3, "rows": 5, **changes}


def open_balanced(store: Any, balanced: dict[str, Any] | None = None, **options: Any) -> Loader:
    options = {"memory": "8MiB", "tensors": ("id",), **options}
    return loader(store, shuffle=Balanced(**balanced or entries()), **options)


def owners(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    game, white = rows // MOVES, rows % MOVES % 2
    return np.where(white == 1, (game + 1) % PLAYERS, game * PLAYERS // GAMES)


def test_batches_have_their_shape(make_store: MakeStore) -> None:
    batches = open_balanced(make_store(LENGTHS))
    assert len(batches) == 2 * GAMES // 12
    players = np.zeros(PLAYERS, int)
    games = set()
    for batch in batches:
        rows = batch["id"].numpy().reshape(4, 3, 5)
        owner = owners(rows)
        assert (owner == owner[:, :1, :1]).all()
        assert len(set(owner[:, 0, 0])) == 4
        game = rows // MOVES * 2 + rows % MOVES % 2
        assert (game == game[:, :, :1]).all()
        assert all(len(set(each)) == 3 for each in game[:, :, 0].tolist())
        assert all(len(set(each)) == 5 for each in rows.reshape(-1, 5).tolist())
        players[owner[:, 0, 0]] += 1
        games.update(zip(owner[:, :, 0].ravel().tolist(), game[:, :, 0].ravel().tolist(), strict=True))
    assert players.max() - players.min() <= 1
    assert len(games) > 0.9 * 2 * GAMES


def test_rows_of_an_entry_are_evenly_drawn(make_store: MakeStore) -> None:
    batches = open_balanced(make_store(LENGTHS))
    rows = np.concatenate([batch["id"].numpy() for _ in range(30) for batch in batches]) % MOVES
    counts = np.bincount(rows, minlength=MOVES)
    assert counts.min() > 0.7 * counts.mean()
    assert counts.max() < 1.3 * counts.mean()


def test_windows_reach_back_from_the_drawn_rows(make_store: MakeStore) -> None:
    window = {"length": 7, "mode": "reach"}
    plain = [batch["id"].numpy() for batch in open_balanced(make_store(LENGTHS))]
    reaching = [batch["id"].numpy() for batch in open_balanced(make_store(LENGTHS), window=window)]
    for rows, windows in zip(plain, reaching, strict=True):
        assert (windows == np.maximum(rows[:, None] + np.arange(-6, 1), 0)).all()


def test_a_group_with_few_entries_repeats_them(make_store: MakeStore) -> None:
    spec = entries()
    kept = (spec["group"] != 103) | (np.cumsum(spec["group"] == 103) <= 2)
    spec |= {name: spec[name][kept] for name in ("group", "first", "count", "step")}
    seen = [batch["id"].numpy().reshape(4, 3, 5) for batch in open_balanced(make_store(LENGTHS), spec)]
    few = [rows for batch in seen for rows in batch if owners(rows)[0, 0] == 3]
    assert few
    assert all(len(set((rows // MOVES)[:, 0].tolist())) == 2 for rows in few)


def test_reads_neighbouring_entries_together(make_store: MakeStore) -> None:
    """A batch of 4 players x 3 games reads far fewer chunks than twelve games at random would."""
    store = make_store(LENGTHS * 10)
    spec = entries()
    game = np.arange(GAMES * 10)
    spec |= {
        "group": game * PLAYERS // len(game),
        "first": game * MOVES,
        "count": np.full(len(game), MOVES),
        "step": np.ones(len(game), np.int64),
    }
    batches = open_balanced(store, spec, residency="streamed")
    chunks = [len(set((batch["id"].numpy() // 64).tolist())) for batch in batches]
    assert batches.stats.batches == len(batches)
    assert batches.readers[0].sampler.limits(1).chunks >= max(chunks)


@pytest.mark.parametrize(
    ("changes", "options", "named"),
    [
        ({"groups": 7}, {}, "at least 7 groups"),
        ({"count": np.full(2 * GAMES, 2000)}, {}, "inside"),
        ({"count": np.full(2 * GAMES, 2**62)}, {}, "inside"),
        ({"step": np.full(2 * GAMES, -1)}, {}, "inside"),
        ({"step": np.full(2 * GAMES, 2.0)}, {}, r"balanced\.step: expected an array of whole numbers"),
        ({"first": np.zeros((2, 3), int)}, {}, r"balanced\.first: expected an array"),
        ({"first": np.zeros(3, int)}, {}, "columns of one length"),
        ({"rows": 0}, {}, r"balanced\.rows"),
        ({"groups": 1.5}, {}, r"balanced\.groups"),
        ({"entries": 2**20, "rows": 2**20}, {}, "samples of a batch"),
        ({"batches": 0}, {}, r"balanced\.batches"),
        ({}, {"window": Window(length=3, stride=2)}, "mode='reach'"),
        ({}, {"rank": 0, "world_size": 1000}, "at least one sample for each"),
    ],
)
def test_what_cannot_be(make_store: MakeStore, changes: dict[str, Any], options: Any, named: str) -> None:
    with pytest.raises(ParamsError, match=named):
        open_balanced(make_store(LENGTHS), entries(**changes), **options)


@pytest.mark.parametrize("change", ["groups exchanged", "entries moved", "lengths exchanged", "fewer rows"])
def test_another_table_is_another_layout(make_store: MakeStore, change: str) -> None:
    """Also one whose columns have the same sums."""
    store, table = make_store(LENGTHS), entries()
    state = open_balanced(store, table).state_dict()
    open_balanced(store, entries()).load_state_dict(state)
    other = {name: table[name].copy() for name in ("group", "first", "count", "step")}
    if change == "groups exchanged":
        other["group"] = np.where(table["group"] == 100, 101, np.where(table["group"] == 101, 100, table["group"]))
    elif change == "entries moved":
        other["first"][0], other["first"][20] = table["first"][0] + 2, table["first"][20] - 2
    elif change == "lengths exchanged":
        other["count"][0], other["count"][GAMES] = 12, 13
        other["first"][0] += 1
        other["first"][GAMES] -= 1
    else:
        other["count"][:] = 3
    with pytest.raises(StateError, match="entries"):
        open_balanced(store, entries(**other)).load_state_dict(state)


def test_the_chunks_of_a_batch_are_counted_as_what_its_entries_need(make_store: MakeStore) -> None:
    """Entries of one row, each in a chunk of its own: more memory is not asked for than they take."""
    first = np.arange(0, GAMES * MOVES, 64)
    spec = {"first": first, "count": np.ones(len(first), int), "step": np.ones(len(first), int)}
    spec |= {"group": np.arange(len(first)) % PLAYERS, "groups": 4, "entries": 3, "rows": 1}
    batches = open_balanced(make_store(LENGTHS), spec, residency="streamed")
    assert max(len(set((batch["id"].numpy() // 64).tolist())) for batch in batches) == 12
    assert batches.readers[0].sampler.limits(1).chunks == 12


def test_an_entry_may_be_the_whole_split(make_store: MakeStore) -> None:
    spec = {"first": np.zeros(4, int), "count": np.full(4, GAMES * MOVES), "step": np.ones(4, int)}
    spec |= {"group": np.arange(4), "groups": 2, "entries": 1, "rows": 5}
    batches = open_balanced(make_store(LENGTHS), spec)
    rows = np.concatenate([batch["id"].numpy() for _ in range(100) for batch in batches])
    assert rows.min() < 100
    assert rows.max() > GAMES * MOVES - 100


@pytest.mark.parametrize("count", [2**24, 2**31, 2**33, 2**40])
def test_rows_of_a_long_entry_are_drawn_from_all_of_it(count: int) -> None:
    table = {"group": [0, 1], "first": [0, count * 3], "count": [count, count], "step": [3, 2]}
    arrays = {name: np.array(values) for name, values in table.items()}
    sampler = BalancedSampler(Balanced(**arrays, groups=2, entries=1, rows=64), Windows(count * 6), 0, 4096)
    rows = next(sampler.pools(0, 0)).draw(0, 1).reshape(2, 64)
    for group in rows:
        first, step = (0, 3) if group[0] < count * 3 else (count * 3, 2)
        places = np.sort((group - first) // step)
        assert np.all((group - first) % step == 0)
        assert 0 <= places[0] <= places[-1] < count
        assert np.all(np.diff(places) <= 2 * count // 64)


@pytest.mark.parametrize("what", [{"count": 2**40, "step": 2**40}, {"count": 2**62, "step": 4}, {"first": 2**62}])
def test_an_entry_beyond_the_rows_is_refused_however_large(what: dict[str, int]) -> None:
    entry = {
        name: np.array([value]) for name, value in ({"group": 0, "first": 0, "count": 1, "step": 1} | what).items()
    }
    with pytest.raises(ParamsError, match="entry 0"):
        BalancedSampler(Balanced(**entry, groups=1, entries=1, rows=1), Windows(2**40), 0, 4096)
