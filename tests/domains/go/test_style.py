"""Learning whose game it is, on the sample's eight players."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from outofcore.domains.go import DOMAIN
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.players import look_up
from outofcore.domains.go.style import NEAR, StyleNetwork, StyleTask, ge2e
from outofcore.errors import ParamsError
from outofcore.loading.loader import loader
from outofcore.settings.machine import Machine
from outofcore.store.reader import Store
from outofcore.training.loaders import open_loaders
from outofcore.training.ranks import Ranks

pytestmark = pytest.mark.usefixtures("one_thread")

TRAIN = {"task": "style", "min_games": 5, "first_moves": 30}
TRAIN |= {"players_per_batch": 6, "games_per_player": 4, "positions_per_game": 5}


def make(store: Store, section: GoSection, **train: Any) -> tuple[StyleTask, Any]:
    section = GoSection.model_validate({**section.model_dump(), "train": {**TRAIN, **train}})
    torch.manual_seed(0)
    task = DOMAIN.task(store, section)
    assert isinstance(task, StyleTask)
    return task, DOMAIN.reading(store.attributes, section)


def figures(task: StyleTask, reading: Any, store: Store) -> dict[str, float]:
    sums: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        for batch in loader(store, "val", 2000, shuffle=False, tensors=reading, memory="64MiB"):
            for name, value in task.evaluate(batch).items():
                sums[name] = sums.get(name, torch.zeros(())) + value.double()
    told, rows = task.summarize(sums), task.plots(sums)["identification"]
    assert [row["games"] for row in rows][:2] == [1, 5]
    for row in rows:  # the picture and the figures say the same
        for name in ("top1", "top5"):
            games = int(float(row["games"]))
            assert row[name] == pytest.approx(told[f"{name}_games_{games}"], abs=1e-6)
            assert row[f"{name}_heat_map"] == pytest.approx(told[f"{name}_games_{games}_heat_map"], abs=1e-6)
    return told


def test_several_ranks_are_refused(store: Store, store_section: GoSection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss compares all games of a batch, of which each rank has a part."""
    task, reading = make(store, store_section)
    monkeypatch.setattr("outofcore.training.loaders.meet", lambda _: Ranks(1, 2, 1, 2))
    with pytest.raises(ParamsError, match="expected one rank, got 2"):
        open_loaders(store, task, reading, store_section.train, Machine(memory=2**28), torch.device("cpu"))


def test_learns_to_tell_players_apart(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section)
    before = figures(task, reading, store)
    assert before["players"] == 8
    optimizer = torch.optim.AdamW(task.parameters(), lr=1e-2)
    batches = loader(store, "train", tensors=reading, memory="64MiB", **task.loader_options())
    for _ in range(3):
        for batch in batches:
            loss, count = task.loss(batch)
            optimizer.zero_grad()
            (loss / count).backward()
            optimizer.step()
    after = figures(task, reading, store)
    assert after["questions_games_5"] >= 8
    assert after["top1_games_1"] > max(0.3, before["top1_games_1"])
    assert after["top1_games_5"] >= after["top1_games_1"]
    assert before["top1_games_5_heat_map"] == after["top1_games_5_heat_map"] > 0.2


def test_batches_are_players_games_positions(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section)
    batches = loader(store, "train", tensors=reading, memory="64MiB", **task.loader_options())
    batch = next(iter(batches))
    assert len(batch["move"]) == 6 * 4 * 5
    game = batch["game"].reshape(6, 4, 5)
    assert (game == game[:, :, :1]).all()
    assert (batch["number"] < 30).all()
    _, count = task.loss(batch)
    assert int(count) == 6 * 4


def test_the_order_of_rows_and_strangers_do_not_matter(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section)
    batch = next(iter(loader(store, "train", tensors=reading, memory="64MiB", **task.loader_options())))
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(batch["move"])))
    shuffled = {name: tensor[order] for name, tensor in batch.items()}
    strangers = {name: torch.cat([tensor, tensor[:7]]) for name, tensor in batch.items()}
    strangers["game"][-7:] = 12345
    with torch.no_grad():
        loss, count = task.loss(batch)
        for other in (shuffled, strangers):
            same, number = task.loss(other)
            assert float(same) == pytest.approx(float(loss), rel=1e-4)
            assert int(number) == int(count)
    assert [len(piece["move"]) for piece in task.micro_batches(batch, 10)] == [len(batch["move"])]


def test_sums_add_up_over_any_pieces(store: Store, store_section: GoSection) -> None:
    task, reading = make(store, store_section)
    rows = {name: store.rows("val")[name].read(0, 900) for name in reading.fields}
    batch = reading(rows, np.zeros(len(rows["move"]), np.uint64))
    pieces = [{name: tensor[at : at + 250] for name, tensor in batch.items()} for at in range(0, 900, 250)]
    with torch.no_grad():
        whole = task.evaluate(batch)
        parts = [task.evaluate(piece) for piece in pieces]
    for name, value in whole.items():
        assert torch.allclose(value, sum(part[name] for part in parts), atol=1e-5)  # type: ignore[arg-type]
    slots, _ = look_up(task.panel_key, task.panel_slot, batch["game"], batch["to_play"])
    assert whole["positions"].sum() == ((batch["number"] < 30) & (slots >= 0)).sum()


def test_history_reaches_through_the_balanced_loader(store: Store, store_section: GoSection) -> None:
    section = store_section.model_copy(
        update={"tensors": store_section.tensors.model_copy(update={"features": "alphagozero18"})}
    )
    task, reading = make(store, section)
    assert reading.window == {"length": 8, "mode": "reach"}
    batch = next(iter(loader(store, "train", tensors=reading, memory="64MiB", **task.loader_options())))
    assert batch["planes"].shape[1] == 18
    assert int(task.loss(batch)[1]) == 6 * 4


def test_the_neighbourhood_of_a_move() -> None:
    network = StyleNetwork(2, 9, 16, 2)
    planes = torch.arange(2 * 81).reshape(1, 2, 9, 9).expand(3, -1, -1, -1)
    around = network._around(planes, torch.tensor([0, 4 * 9 + 4, 81]), None)
    assert around.shape == (3, 3, 2 * NEAR + 1, 2 * NEAR + 1)
    assert around[0, 0, NEAR, NEAR] == 0
    assert around[0, 0, NEAR + 1, NEAR + 2] == 11
    assert not around[0, :, :NEAR].any()
    assert torch.equal(around[1, :2, 1:-1, 1:-1], planes[1])
    assert around[1, 2].sum() == 81
    assert not around[2].any()


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
