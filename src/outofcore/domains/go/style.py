"""Player identification by contrastive training: games of one player are pulled together, those of others apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.boards.tower import residual_blocks
from outofcore.domains.go.params import GoTrainSection
from outofcore.domains.go.players import Answer, Panel, PlayedGames, entries, identify, look_up
from outofcore.domains.go.tensors import GoReading, planes
from outofcore.domains.task import Batch, Task
from outofcore.order.balanced import Balanced

LEAST_DIMENSIONS = 64
"""Of a style embedding; a wider network has one for each channel."""

NEAR = 5
"""Radius of the neighbourhood of a move, in lines."""
PHASES = (0, 8, 16, 30, 60, 100, 160)
"""First move of each phase of a game."""


class StyleNetwork(nn.Module):
    """Embedding of a position and the move chosen in it, characteristic of the player.

    Two kinds of habits: where somebody plays at which stage of the game (a table), and local shapes (a small residual
    network over the neighbourhood of the move).
    """

    def __init__(self, planes: int, frame: int, channels: int, blocks: int) -> None:
        super().__init__()
        size = max(LEAST_DIMENSIONS, channels)
        self.frame = frame
        self.where = nn.Embedding(2 * len(PHASES) * (frame * frame + 1), size)
        self.stem = nn.Conv2d(planes + 1, channels, 3, padding=1)
        self.blocks = residual_blocks(channels, blocks)
        last = nn.Linear(2 * size, size)
        self.shape = nn.Sequential(nn.Linear(2 * channels, 2 * size), nn.ReLU(), last)
        # The table starts near zero and the shapes at zero: random values would drown the signal of a few games.
        nn.init.normal_(self.where.weight, std=0.02)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.begins = nn.Buffer(torch.tensor(PHASES), persistent=False)

    def forward(self, planes: Tensor, move: Tensor, to_play: Tensor, number: Tensor, on_board: Tensor | None) -> Tensor:
        """Embeddings (batch, dimensions).

        ``planes`` (batch, planes, frame, frame) of any dtype; ``move``, ``to_play`` (0 Black, 1 White) and ``number``
        (preceding moves) (batch,) int64; ``on_board`` (batch, frame, frame) if boards are smaller than the frame.
        """
        phase = torch.bucketize(number, self.begins, right=True) - 1
        points = self.frame * self.frame + 1
        where: Tensor = self.where((phase * 2 + to_play) * points + move)
        board = torch.relu(self.stem(self._around(planes, move, on_board).to(self.stem.weight.dtype)))
        board = self.blocks(board)
        shape: Tensor = self.shape(torch.cat([board[..., NEAR, NEAR], board.mean((2, 3))], 1))
        return where + shape

    def _around(self, planes: Tensor, move: Tensor, on_board: Tensor | None) -> Tensor:
        """The points up to ``NEAR`` lines from the move, with an on-board plane; zero around a pass."""
        board = planes.new_ones(planes.shape[0], self.frame, self.frame) if on_board is None else on_board
        padded = functional.pad(torch.cat([planes, board[:, None].to(planes.dtype)], 1), (NEAR,) * 4)
        passed = move == self.frame * self.frame
        offsets = torch.arange(2 * NEAR + 1, device=move.device)
        point = torch.where(passed, 0, move)
        rows = (point // self.frame)[:, None, None] + offsets[:, None]
        columns = (point % self.frame)[:, None, None] + offsets
        samples = torch.arange(len(move), device=move.device)[:, None, None]
        around: Tensor = padded[samples, :, rows, columns].movedim(-1, 1)
        return around * ~passed[:, None, None, None]


class StyleTask(Task):
    """Embeddings that tell players apart; a game's is the mean of its positions'."""

    shares = ("top1", "top5")

    def __init__(
        self, reading: GoReading, section: GoTrainSection, games: PlayedGames, panel: Panel, baseline: list[Answer]
    ) -> None:
        super().__init__()
        self.section, self.panel, self.baseline = section, panel, baseline
        self.reach = reading.reach
        self.network = StyleNetwork(planes(reading.section), reading.frame, *section.size)
        # Learnt as a logarithm, so that it adapts quickly to how informative a single game is.
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))
        self.shift = nn.Parameter(torch.tensor(-5.0))
        self._games = games
        order = np.argsort(games.key)
        self.train_key, self.train_player, self.panel_key, self.panel_slot = (
            nn.Buffer(torch.from_numpy(array), persistent=False)
            for array in (games.key[order], games.sides[order], panel.key, panel.slot)
        )

    def loader_options(self) -> dict[str, Any]:
        """Windows that cover the history, and batches of players x games x positions."""
        section = self.section
        table = entries(self._games, section.positions_per_game, section.first_moves)
        columns = (table["group"], table["first"], table["count"], table["step"])
        sizes = (section.players_per_batch, section.games_per_player, section.positions_per_game)
        return {"shuffle": Balanced(*columns, *sizes)}

    def micro_batches(self, batch: Batch, size: int) -> Iterator[Batch]:
        """The whole batch: each of its games is compared with all others."""
        del size
        yield batch

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Contrastive loss over games with another of the same player in the batch, and their number."""
        player, game = look_up(self.train_key, self.train_player, batch["game"], batch["to_play"])
        counted = player >= 0
        _, group = torch.unique(2 * game[counted] + batch["to_play"][counted], return_inverse=True)
        positions = self._embed(batch, counted)
        number = int(group.max()) + 1 if len(group) else 0
        sums = torch.zeros(number, positions.shape[1], device=positions.device).index_add(0, group, positions)
        means = sums / torch.bincount(group, minlength=number)[:, None]
        # The mean of all players carries no information; left in, it collapses the vectors before they differ.
        vectors = functional.normalize(means - means.mean(0), dim=1)
        owner = torch.zeros(number, dtype=torch.int64, device=group.device).index_put((group,), player[counted])
        return ge2e(vectors, owner, self.log_scale.exp(), self.shift)

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Summed embeddings of each panel slot, (slots, dimensions), and their number, (slots,)."""
        slot, _ = look_up(self.panel_key, self.panel_slot, batch["game"], batch["to_play"])
        counted = slot >= 0
        if self.section.first_moves is not None:
            counted &= batch["number"] < self.section.first_moves
        slots, device = len(self.panel.player), batch["number"].device
        sums = torch.zeros(slots, self.network.where.embedding_dim, device=device)
        if counted.any():
            sums.index_add_(0, slot[counted], self._embed(batch, counted))
        return {"embeddings": sums, "positions": torch.bincount(slot[counted], minlength=slots)}

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Top-1 and top-5 accuracy by games per query, with those of the heat maps; nothing without known players."""
        if not len(self.panel.player):
            return {}
        figures: dict[str, float] = {"players": float(len(np.unique(self.panel.player)))}
        for row in self._identification(sums):
            games = f"games_{row['games']:.0f}"
            for name in ("top1", "top5"):
                figures |= {f"{name}_{games}": row[name], f"{name}_{games}_heat_map": row[f"{name}_heat_map"]}
            figures[f"questions_{games}"] = row["questions"]
        return figures

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``identification``: accuracy by games per query, of the model and of the heat maps."""
        return {
            "identification": [
                {name: round(value, 6) for name, value in row.items()} for row in self._identification(sums)
            ]
        }

    def _identification(self, sums: Mapping[str, Tensor]) -> Iterator[dict[str, float]]:
        positions = sums["positions"].cpu()
        means = sums["embeddings"].float().cpu() / positions.clamp(min=1)[:, None]
        known = means[(positions > 0) & ~torch.from_numpy(self.panel.asked)]
        centred = (means - known.mean(0)) * (positions > 0)[:, None]
        heat_maps = {answer.games: answer for answer in self.baseline}
        for answer in identify(functional.normalize(centred, dim=1), self.panel):
            heat_map = heat_maps[answer.games]
            yield {
                "games": float(answer.games),
                "questions": float(answer.questions),
                "top1": answer.top1,
                "top1_heat_map": heat_map.top1,
                "top5": answer.top5,
                "top5_heat_map": heat_map.top5,
            }

    def require_vectors(self) -> None:
        """Nothing is refused."""

    def vectors(self, batch: Batch) -> Tensor:
        """Embedding of each position (batch, dimensions); zero after ``first_moves``, which training never saw."""
        first = self.section.first_moves
        counted = batch["number"] < (torch.iinfo(torch.int64).max if first is None else first)
        vectors = torch.zeros(len(counted), self.network.where.embedding_dim, device=counted.device)
        return vectors.masked_scatter(counted[:, None], self._embed(batch, counted)) if counted.any() else vectors

    def _embed(self, batch: Batch, counted: Tensor | slice) -> Tensor:
        names = ("planes", "move", "to_play", "number")
        on_board = batch["on_board"][counted] if "on_board" in batch else None
        vectors: Tensor = self.network(*(batch[name][counted] for name in names), on_board)
        return vectors.float()


def ge2e(games: Tensor, player: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Generalised end-to-end loss (Wan et al. 2018), softmax form.

    Each game should be closest to the mean of its player's other games among the means of all players. ``games`` are
    unit vectors (games, dimensions), ``player`` is (games,) int64; ``scale`` (positive) and ``shift`` of the cosines
    are learnt. Returns the sum over games of players with at least two games, and their number.
    """
    _, group, count = torch.unique(player, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(count), games.shape[1], device=games.device).index_add(0, group, games)
    likeness = games @ functional.normalize(sums, dim=1).T
    others = functional.normalize(sums[group] - games, dim=1)
    own = functional.one_hot(group, len(count)).bool()
    likeness = torch.where(own, (games * others).sum(1, keepdim=True), likeness)
    counted = count[group] > 1
    logits = scale * likeness + shift
    return functional.cross_entropy(logits[counted], group[counted], reduction="sum"), counted.sum()
