"""What is trained on a chess store: predicting the move played and the result, with figures beside their baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.chess.accelerator import unpack
from outofcore.domains.chess.moves import flip_code, vocabulary
from outofcore.domains.chess.network import Network
from outofcore.domains.chess.params import TensorSection
from outofcore.domains.chess.tensors import ChessReading
from outofcore.domains.reading import Reading
from outofcore.domains.task import Batch, Task

if TYPE_CHECKING:
    from outofcore.store.reader import Store

PLIES_PER_BIN = 10
BINS = 16
PHASES = {"opening": slice(0, 2), "middlegame": slice(2, 6), "endgame": slice(6, BINS)}
"""Half-moves 0 to 19, 20 to 59, and from 60 on, as bins of 10; the last bin is open."""

_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Baseline:
    """What the training split alone says of a position that nobody looks at.

    Attributes
    ----------
    move_counts
        (classes,) int64: how often each move was played.
    value_mean
        Mean result, in the view of the tensors.
    """

    move_counts: npt.NDArray[np.int64]
    value_mean: float


def measure_baseline(store: Store, section: TensorSection) -> Baseline:
    """Count the moves and average the results of the train split; reads 7 bytes a position."""
    moves = vocabulary(section.targets)
    table = store.rows("train")
    counts = np.zeros(moves.size, np.int64)
    total = 0
    for start in range(0, len(table), _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, len(table))
        move, state, result = (table.fields[name].read(start, stop) for name in ("move", "state", "result"))
        black = state[:, 0] if section.view == "mover" else np.zeros(stop - start, np.uint8)
        counts += np.bincount(moves.index[move ^ black * np.uint16(flip_code(0))], minlength=moves.size)
        total += int((result.astype(np.int64) * (1 - 2 * black.astype(np.int64))).sum())
    return Baseline(counts, total / max(len(table), 1))


def make_task(store: Store, section: Any) -> ChessTask:
    """The task of a store, by the ``tensors`` and ``train`` settings of the chess section."""
    return ChessTask(section.tensors, section.train.preset, measure_baseline(store, section.tensors))


class ChessTask(Task):
    """Policy and value of a position.

    The loss of a position is the cross-entropy of the move played plus the squared error of the result. Where the
    tensors carry the mask of legal moves, other moves get no probability.

    Parameters
    ----------
    section
        The tensors that it reads.
    preset
        Size of the network: ``test``, ``small``, ``medium``, ``large``.
    baseline
        What the model is measured against.
    """

    def __init__(self, section: TensorSection, preset: str, baseline: Baseline) -> None:
        super().__init__()
        self.section = section
        self.network = Network(section.planes, preset, vocabulary(section.targets))
        counts = torch.from_numpy(baseline.move_counts)
        # Add-one smoothing: moves that the train split lacks have a probability too.
        surprise = -torch.log((counts + 1.0) / (counts + 1.0).sum())
        self.register_buffer("surprise", surprise.float(), persistent=False)
        self.register_buffer("frequent", counts.argsort(descending=True, stable=True)[:5], persistent=False)
        self.surprise: Tensor
        self.frequent: Tensor
        self.value_mean = baseline.value_mean

    def readings(self, reading: Reading, device: torch.device) -> tuple[Reading, Reading]:
        """Bits instead of planes for an accelerator, and no mirror images in validation."""
        if not isinstance(reading, ChessReading):
            return reading, reading
        training = replace(reading, packed=device.type != "cpu")
        plain = replace(training, section=reading.section.model_copy(update={"mirror": False}))
        return training, plain

    def predict(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of moves (batch, classes) float32 and expected results (batch,) float32."""
        planes = unpack(batch["packed"]) if "packed" in batch else batch["planes"]
        logits, value = self.network(planes)
        logits = logits.float()
        if "legal" in batch:
            logits = logits.masked_fill(~batch["legal"], torch.finfo(logits.dtype).min)
        return logits, value.float()

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the moves played plus squared error of the results, summed, and the number of positions."""
        logits, value = self.predict(batch)
        policy = functional.cross_entropy(logits, batch["target"], reduction="sum")
        error = functional.mse_loss(value, batch["value"], reduction="sum")
        return policy + error, torch.tensor(len(value))

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Counts by bins of ten half-moves (16,), and sums of losses, of the model and of the baselines."""
        logits, value = self.predict(batch)
        target, result = batch["target"], batch["value"]
        ply = (batch["ply"] // PLIES_PER_BIN).clamp(0, BINS - 1).long()
        best = logits.topk(5).indices

        def by_ply(counted: Tensor) -> Tensor:
            return torch.bincount(ply[counted], minlength=BINS)

        return {
            "positions": torch.bincount(ply, minlength=BINS),
            "top1": by_ply(best[:, 0] == target),
            "top5": by_ply((best == target[:, None]).any(1)),
            "frequent1": by_ply(target == self.frequent[0]),
            "frequent5": by_ply((target[:, None] == self.frequent).any(1)),
            "policy_loss": functional.cross_entropy(logits, target, reduction="sum"),
            "surprise": self.surprise[target].sum(),
            "value_loss": functional.mse_loss(value, result, reduction="sum"),
            "constant_loss": (result - self.value_mean).square().sum(),
        }

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Accuracies are shares of the positions; losses are means, the policy's in nats.

        ``top1_most_frequent`` and ``top5_most_frequent`` are the accuracies of the commonest moves of the train split,
        ``policy_loss_frequencies`` is the cross-entropy of its frequencies, ``value_loss_constant`` the squared error
        of its mean result.
        """
        count = float(sums["positions"].sum())
        figures = {
            "top1": _share(sums["top1"], sums["positions"]),
            "top1_most_frequent": _share(sums["frequent1"], sums["positions"]),
            "top5": _share(sums["top5"], sums["positions"]),
            "top5_most_frequent": _share(sums["frequent5"], sums["positions"]),
            "policy_loss": float(sums["policy_loss"]) / count,
            "policy_loss_frequencies": float(sums["surprise"]) / count,
            "value_loss": float(sums["value_loss"]) / count,
            "value_loss_constant": float(sums["constant_loss"]) / count,
        }
        for phase, bins in PHASES.items():
            if sums["positions"][bins].sum() > 0:
                figures[f"top1_{phase}"] = _share(sums["top1"][bins], sums["positions"][bins])
                figures[f"top1_{phase}_most_frequent"] = _share(sums["frequent1"][bins], sums["positions"][bins])
        return {**figures, "positions": count}

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """``accuracy_by_ply``: the accuracies of every ten half-moves of the game, beside the baseline's."""
        rows: list[dict[str, float | str]] = [
            {
                "ply": PLIES_PER_BIN * n,
                "top1": round(_share(sums["top1"][n], sums["positions"][n]), 6),
                "top5": round(_share(sums["top5"][n], sums["positions"][n]), 6),
                "top1_most_frequent": round(_share(sums["frequent1"][n], sums["positions"][n]), 6),
                "positions": int(sums["positions"][n]),
            }
            for n in range(BINS)
            if sums["positions"][n] > 0
        ]
        return {"accuracy_by_ply": rows}


def _share(part: Tensor, whole: Tensor) -> float:
    return float(part.sum()) / float(whole.sum())
