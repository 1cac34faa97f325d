"""The chess task: predict the move played and the result, reported with baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from outofcore.domains.boards.policy import BINS, MovePrediction, Outcome, accuracies
from outofcore.domains.chess.codes import CHESS960
from outofcore.domains.chess.moves import flip_code, vocabulary
from outofcore.domains.chess.network import ELO_BINS, ELO_PER_BIN, Network, elo_bins
from outofcore.domains.chess.params import TensorSection
from outofcore.domains.chess.squares import as_words
from outofcore.domains.chess.tensors import ChessReading, value_fields, values
from outofcore.domains.chess.widening import classify
from outofcore.domains.own_network import own_network
from outofcore.domains.reading import Reading
from outofcore.domains.task import Batch
from outofcore.ndarrays import Ints

if TYPE_CHECKING:
    from outofcore.store.reader import Store
    from outofcore.store.schema import Schema

PLIES_PER_BIN = 10
PHASES = {"opening": slice(0, 2), "middlegame": slice(2, 6), "endgame": slice(6, BINS)}
"""Half-moves 0 to 19, 20 to 59, and from 60 on, as bins of 10; the last bin is open."""

_ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Baseline:
    """Predictions from the training split alone, without looking at the position."""

    move_counts: Ints  # (classes,) int64: how often each move was played
    value_mean: float  # mean of the values that are known, in the view of the tensors


def measure_baseline(store: Store, section: TensorSection) -> Baseline:
    """Count the moves and average the values of the train split, as the tensors give them."""
    moves = vocabulary(section.targets)
    table = store.rows("train")
    counts = np.zeros(moves.size, np.int64)
    total, known = 0.0, 0
    chess960 = _has_chess960(store)
    fields = ("move", "state", *value_fields(section), *(("squares",) if chess960 else ()))
    for rows in table.blocks(_ROWS_AT_ONCE, *fields):
        move, state, value = rows["move"], rows["state"], values(rows, section).astype(np.float64)
        black = state[:, 0] if section.view == "mover" else np.zeros(len(move), np.uint8)
        flips = black * np.uint16(flip_code(0))
        if chess960:
            targets = np.empty(len(move), np.int64)
            classify(as_words(rows["squares"]), state, move, flips, moves.index, targets)
        else:
            targets = moves.index[move ^ flips]
        counts += np.bincount(targets, minlength=moves.size)
        total += float(np.nansum(value * (1 - 2 * black.astype(np.float64))))
        known += int(np.count_nonzero(~np.isnan(value)))
    return Baseline(counts, total / max(known, 1))


def _has_chess960(store: Store) -> bool:
    """Whether the train split has a Chess960 game."""
    games = store.sequences("train")
    return "variant" in games.fields and any(
        CHESS960 in block["variant"] for block in games.blocks(_ROWS_AT_ONCE, "variant")
    )


def make_task(store: Store, section: Any, evaluated: Store, split: str) -> ChessTask:
    """The task of a store, from the ``tensors`` and ``train`` settings."""
    del evaluated, split
    return ChessTask(
        section.tensors, section.train.size, measure_baseline(store, section.tensors), section.train.network
    )


def planned_task(section: Any, schemas: Mapping[str, Schema]) -> ChessTask:
    """The task before there is a store: no move was played."""
    del schemas
    counts = np.zeros(vocabulary(section.tensors.targets).size, np.int64)
    return ChessTask(section.tensors, section.train.size, Baseline(counts, 0.0), section.train.network)


class ChessTask(MovePrediction):
    """Policy and value of a position; with the mask of legal moves in the tensors, others get no probability."""

    columns = ("white_elo", "black_elo")
    target, number = "target", "ply"
    outcomes = (Outcome("value", "value_loss"),)

    def __init__(
        self, section: TensorSection, size: tuple[int, int], baseline: Baseline, network: str = "residual"
    ) -> None:
        super().__init__(baseline.move_counts, PLIES_PER_BIN, baseline.value_mean)
        self.section = section
        moves, planes = vocabulary(section.targets), section.planes
        if ":" in network:
            inputs = (((planes, 8, 8), torch.uint8), ((2,), torch.int32) if section.elo else ())
            facts = {"planes": planes, "classes": moves.size, "elo": section.elo}
            self.network = own_network(network, inputs, lambda _: ((moves.size,), ()), **facts)
        else:
            self.network = Network(planes, size, moves, elo=section.elo)

    def reading_for(self, device: torch.device, reading: Reading) -> Reading:
        """The side to move in addition."""
        del device
        return replace(reading, side=True) if isinstance(reading, ChessReading) else reading

    def predict(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of moves (batch, classes) float32 and expected results (batch,) float32."""
        logits, value = self.network(batch["planes"], batch.get("elo"))
        logits = logits.float()
        if "legal" in batch:
            logits = logits.masked_fill(~batch["legal"], torch.finfo(logits.dtype).min)
        return logits, value.float()

    def sums(self, batch: Batch, logits: Tensor, *expected: Tensor) -> dict[str, Tensor]:
        """Counts in bins of Elo (40,) too, if the batch has ``white_elo``, ``black_elo`` and ``to_move``."""
        sums, target = super().sums(batch, logits, *expected), batch["target"]
        if {*self.columns, "to_move"} <= batch.keys():
            bins = elo_bins(torch.where(batch["to_move"] == 0, batch["white_elo"], batch["black_elo"]))
            hits = {
                "elo": torch.ones_like(target, dtype=torch.bool),
                "elo_top1": logits.argmax(1) == target,
                "elo_frequent1": target == self.frequent[0],
            }
            sums |= {name: torch.bincount(bins[hit], minlength=ELO_BINS) for name, hit in hits.items()}
        return sums

    def further_figures(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Accuracies by phase of the game."""
        figures = {}
        for phase, bins in PHASES.items():
            if sums["positions"][bins].sum() > 0:
                shares = accuracies(sums, bins)
                figures[f"top1_{phase}"] = shares["top1"]
                figures[f"top1_{phase}_most_frequent"] = shares["top1_most_frequent"]
        return figures

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``accuracy_by_ply`` and ``accuracy_by_elo``: per ten half-moves of the game, and per 100 Elo of the mover.

        Each has the baseline's accuracy too. Movers of unknown Elo are left out of the latter.
        """
        rows: list[dict[str, float | str]] = [
            {
                "ply": ply,
                **{name: shares[name] for name in ("top1", "top5", "top1_most_frequent")},
                "positions": int(positions),
            }
            for ply, positions, shares in self.accuracy_by_bin(sums)
        ]
        tables = {"accuracy_by_ply": rows}
        by_elo = list(self._by_elo(sums)) if "elo" in sums else []
        return tables | ({"accuracy_by_elo": by_elo} if by_elo else {})

    def _by_elo(self, sums: Mapping[str, Tensor]) -> Iterator[dict[str, float | str]]:
        for place in range(1, ELO_BINS):
            if positions := float(sums["elo"][place]):
                yield {
                    "elo": place * ELO_PER_BIN,
                    "top1": round(float(sums["elo_top1"][place]) / positions, 6),
                    "top1_most_frequent": round(float(sums["elo_frequent1"][place]) / positions, 6),
                    "positions": int(positions),
                }
