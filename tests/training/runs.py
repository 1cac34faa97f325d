"""Short trainings of the small task, and what they leave."""

from __future__ import annotations

from pathlib import Path

import torch

from outofcore.domains.task import Batch
from outofcore.training.loop import fit
from tests.training.small import WeightedRegression, loaders, section

STEPS = 21  # 3 epochs of 7 batches


def train(out: Path, *, task: WeightedRegression | None = None, train_loader=None, val=None, **options):
    settings = options.pop("settings", section())
    default_train, default_val = loaders(settings.batch_size)
    task = task or WeightedRegression()
    figures = fit(
        task,
        default_train if train_loader is None else train_loader,
        default_val if val is None else val,
        settings,
        name="toy",
        out=out,
        identity=options.pop("identity", {"store": "1"}),
        device=options.pop("device", "cpu"),
        **options,
    )
    return task, figures


def weights(out: Path) -> Batch:
    return torch.load(out / "models/toy/model.pt", weights_only=True)["model"]


def same(a: Batch, b: Batch) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def curves(out: Path) -> dict[str, str]:
    root = out / "plots/toy"
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}
