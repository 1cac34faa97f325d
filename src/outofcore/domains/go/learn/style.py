"""Player identification by contrastive training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.go.learn.contrast import ge2e, supcon
from outofcore.domains.go.learn.identification import Answer, Panel, identify
from outofcore.domains.go.learn.network import DIMENSIONS, StyleNetwork
from outofcore.domains.go.learn.players import Games, entries
from outofcore.domains.go.params import GoTrainSection
from outofcore.domains.go.tensors import GoReading, planes
from outofcore.domains.task import Batch, Task


class StyleTask(Task):
    """Embeddings that tell players apart; a game's is the mean of its positions'.

    ``games`` come from the train split, ``panel`` are held-out games, ``baseline`` the answers of opening heat maps.
    """

    def __init__(
        self, reading: GoReading, section: GoTrainSection, games: Games, panel: Panel, baseline: list[Answer]
    ) -> None:
        super().__init__()
        self.section, self.panel, self.baseline = section, panel, baseline
        self.reach = reading.reach
        self.network = StyleNetwork(planes(reading.section), reading.frame, section.preset)
        # Learnt as a logarithm, so that it adapts quickly to how informative a single game is.
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))
        self.shift = nn.Parameter(torch.tensor(-5.0))
        self._games = games
        order = np.argsort(games.key)
        for name, array in {
            "train_key": games.key[order],
            "train_player": games.sides[order],
            "panel_key": panel.key,
            "panel_slot": panel.slot,
        }.items():
            self.register_buffer(name, torch.from_numpy(array), persistent=False)
        self.train_key: Tensor
        self.train_player: Tensor
        self.panel_key: Tensor
        self.panel_slot: Tensor

    def loader_options(self) -> dict[str, Any]:
        """Windows that cover the history, and batches of players x games x positions.

        ``balanced`` holds :func:`outofcore.domains.go.learn.players.entries` and the ``groups`` (players), ``entries``
        (games per player) and ``rows`` (positions per game) of a training batch.
        """
        section = self.section
        balanced = {
            **entries(self._games, section.positions_per_game, section.first_moves),
            "groups": section.players_per_batch,
            "entries": section.games_per_player,
            "rows": section.positions_per_game,
        }
        return {"balanced": balanced}

    def micro_batches(self, batch: Batch, size: int) -> Iterator[Batch]:
        """The whole batch: each of its games is compared with all others."""
        del size
        yield batch

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Summed contrastive loss over games with another of the same player in the batch, and their number.

        Rows are grouped by game and side to play, in any order; players that do not count are skipped.
        """
        player, game = _look_up(self.train_key, self.train_player, batch)
        counted = player >= 0
        _, group = torch.unique(2 * game[counted] + batch["to_play"][counted], return_inverse=True)
        positions = self._embed(batch, counted)
        number = int(group.max()) + 1 if len(group) else 0
        sums = torch.zeros(number, positions.shape[1], device=positions.device).index_add(0, group, positions)
        means = sums / torch.bincount(group, minlength=number)[:, None]
        # The mean of all players carries no information; left in, it collapses the vectors before they differ.
        vectors = functional.normalize(means - means.mean(0), dim=1)
        owner = torch.zeros(number, dtype=torch.int64, device=group.device).index_put((group,), player[counted])
        if self.section.contrast == "ge2e":
            return ge2e(vectors, owner, self.log_scale.exp(), self.shift)
        return supcon(vectors, owner)

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Summed embeddings of each panel slot, (slots, dimensions), and their number, (slots,)."""
        slot, _ = _look_up(self.panel_key, self.panel_slot, batch)
        counted = slot >= 0
        if self.section.first_moves is not None:
            counted &= batch["number"] < self.section.first_moves
        slots, device = len(self.panel.player), batch["number"].device
        sums = torch.zeros(slots, DIMENSIONS[self.section.preset], device=device)
        if counted.any():
            sums.index_add_(0, slot[counted], self._embed(batch, counted))
        return {"embeddings": sums, "positions": torch.bincount(slot[counted], minlength=slots)}

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Top-1 and top-5 accuracy by games per query, with those of the heat maps."""
        figures: dict[str, float] = {"players": float(len(np.unique(self.panel.player)))}
        baseline = {answer.games: answer for answer in self.baseline}
        for mine in self._answers(sums):
            theirs = baseline[mine.games]
            figures |= {
                f"top1_games_{mine.games}": mine.top1,
                f"top1_games_{mine.games}_heat_map": theirs.top1,
                f"top5_games_{mine.games}": mine.top5,
                f"top5_games_{mine.games}_heat_map": theirs.top5,
                f"questions_games_{mine.games}": float(mine.questions),
            }
        return figures

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``identification``: accuracy by games per query, of the model and of the heat maps."""
        baseline = {answer.games: answer for answer in self.baseline}
        rows: list[dict[str, float | str]] = [
            {
                "games": float(mine.games),
                "questions": float(mine.questions),
                "top1": round(mine.top1, 6),
                "top1_heat_map": round(baseline[mine.games].top1, 6),
                "top5": round(mine.top5, 6),
                "top5_heat_map": round(baseline[mine.games].top5, 6),
            }
            for mine in self._answers(sums)
        ]
        return {"identification": rows}

    def _answers(self, sums: Mapping[str, Tensor]) -> list[Answer]:
        positions = sums["positions"].cpu()
        means = sums["embeddings"].float().cpu() / positions.clamp(min=1)[:, None]
        known = means[(positions > 0) & ~torch.from_numpy(self.panel.asked)]
        centred = (means - known.mean(0)) * (positions > 0)[:, None]
        return identify(functional.normalize(centred, dim=1), self.panel)

    def _embed(self, batch: Batch, counted: Tensor | slice) -> Tensor:
        names = ("planes", "move", "to_play", "number")
        on_board = batch["on_board"][counted] if "on_board" in batch else None
        vectors: Tensor = self.network(*(batch[name][counted] for name in names), on_board)
        return vectors.float()


def _look_up(keys: Tensor, values: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Value per row from a table by game and side (-1 if the game is missing), and the game's index in it."""
    place = torch.searchsorted(keys, batch["game"]).clamp(max=len(keys) - 1)
    value = values[place, batch["to_play"]]
    return torch.where(keys[place] == batch["game"], value, -1), place
