"""Windows of bases to tensors, and a small recurrent network that predicts the next base."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.task import Task


class NextBase:
    fields = ("bases",)

    def __call__(self, rows: Any, draws: Any) -> dict[str, Tensor]:
        bases = torch.from_numpy(rows["bases"].astype("int64"))  # (batch, length + 1)
        return {"inputs": bases[:, :-1], "targets": bases[:, 1:]}


class NextBaseTask(Task):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        self.embed, self.recur, self.out = nn.Embedding(5, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 5)

    def loader_options(self) -> dict[str, Any]:
        return {"window": {"length": self.length + 1, "stride": self.length, "mode": "never"}}

    def losses(self, batch: Any) -> Tensor:
        logits = self.out(self.recur(self.embed(batch["inputs"]))[0])
        return functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), reduction="none")

    def loss(self, batch: Any) -> tuple[Tensor, Tensor]:
        losses = self.losses(batch)
        return losses.sum(), torch.tensor(len(losses))

    def evaluate(self, batch: Any) -> dict[str, Tensor]:
        return {"loss": self.losses(batch).sum(), "counts": torch.bincount(batch["targets"].flatten(), minlength=5)}

    def summarize(self, sums: Any) -> dict[str, float]:
        counts = sums["counts"].double()
        entropy = -torch.xlogy(counts, counts / counts.sum()).sum() / counts.sum()
        return {"loss": float(sums["loss"] / counts.sum()), "loss_frequencies": float(entropy)}
