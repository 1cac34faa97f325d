"""Ranks that are killed go on, as any number of ranks, with the batches that were to come."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.settings.residencies import ResidencyName
from tests.loading.conftest import PROCESSES, MakeStore
from tests.loading.rank_process import Note, merged, open_rank, run

WORLDS = (1, 2, 3, 4, 6, 8, 16)
LENGTHS = [300, 1, 64, 700, 35, 1000, 900]


def read_until(
    kill_after: int,
    world: int,
    store: Path | list[Path],
    residency: ResidencyName,
    state: dict[str, Any] | None,
    notes: Path,
) -> list[Note]:
    """Global batches that ``world`` processes received until they were killed, or until the epoch's end."""
    notes.mkdir()
    paths = [notes / str(rank) for rank in range(world)]
    ranks = [
        PROCESSES.Process(target=run, args=(store, residency, rank, world, state, path), daemon=True)
        for rank, path in enumerate(paths)
    ]
    for rank in ranks:
        rank.start()
    while any(rank.is_alive() for rank in ranks) and len(Note.read(paths[0])) < kill_after:
        time.sleep(0.002)
    ended = not any(rank.is_alive() for rank in ranks)
    for rank in ranks:
        rank.kill()
        rank.join()
        assert not ended or rank.exitcode == 0
    return merged([Note.read(path) for path in paths])


def digest_of(batches: list[list[int]]) -> str:
    return hashlib.sha256(json.dumps(batches).encode()).hexdigest()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("residency", "kills", "stores"),
    [
        pytest.param("streamed", 2, 1, marks=pytest.mark.long),
        ("hybrid", 2, 3),
        pytest.param("streamed", 20, 1, marks=pytest.mark.long),
        pytest.param("hybrid", 20, 1, marks=pytest.mark.long),
        pytest.param("ram", 20, 1, marks=pytest.mark.long),
        pytest.param("streamed", 20, 3, marks=pytest.mark.long),
    ],
)
def test_killed_ranks_go_on_as_any_number(
    make_store: MakeStore, tmp_path: Path, residency: ResidencyName, kills: int, stores: int
) -> None:
    lengths = [(LENGTHS * (2 + kills // 3))[number::stores] for number in range(stores)]
    several = [make_store(each, first=30_000 * number) for number, each in enumerate(lengths)]
    store = several if stores > 1 else several[0]
    expected = [sorted(batch["id"].tolist()) for batch in open_rank(store, residency, 0, 1)]
    rng, killed, runs = np.random.default_rng(kills), 0, 0
    while killed < kills:
        got: list[list[int]] = []
        state: dict[str, Any] | None = None
        while len(got) < len(expected):
            left = len(expected) - len(got)
            after = int(rng.integers(1, max(2, len(expected) // 4))) if killed < kills else left + 1
            steps = read_until(after, int(rng.choice(WORLDS)), store, residency, state, tmp_path / str(runs))
            runs += 1
            killed += len(steps) < left
            got += [step.rows for step in steps]
            state = steps[-1].state if steps else state
        assert digest_of(got) == digest_of(expected)
