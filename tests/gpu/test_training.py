"""Training on a GPU: the model of the processor, up to rounding, in steps that do not wait for data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from outofcore.errors import BudgetError
from tests.training.runs import train
from tests.training.small import ListLoader, WeightedRegression, columns, section

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")


class OnGpu(ListLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield {name: tensor.cuda() for name, tensor in batch.items()}


def loaders() -> dict[str, OnGpu]:
    return {"train_loader": OnGpu(columns(100, 1), 16), "val": OnGpu(columns(40, 2), 16, shuffle=False)}


@pytest.mark.parametrize("micro_batch", [0, 5])
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "auto"])
def test_the_model_is_that_of_the_processor(tmp_path: Path, device: str, micro_batch: int) -> None:
    there, figures = train(tmp_path / "there", device=device, micro_batch=micro_batch, **loaders())
    here, expected = train(tmp_path / "here")
    for trained, other in zip(there.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(trained.cpu(), other, rtol=1e-3, atol=1e-4)
    assert figures == pytest.approx(expected, rel=1e-3)
    run = json.loads((tmp_path / "there/metrics/toy/train_run.json").read_text())
    assert run["device"] == "cuda:0"
    assert run["peak_device_bytes"] > 0


def test_mixed_precision_learns_too(tmp_path: Path) -> None:
    _, figures = train(tmp_path, device="cuda", settings=section(precision="bf16-mixed"), **loaders())
    assert figures["error"] == pytest.approx(train(tmp_path / "here")[1]["error"], rel=0.1)


def test_no_memory_is_one_line(tmp_path: Path) -> None:
    class Wide(WeightedRegression):
        def loss(self, batch):
            torch.empty(1 << 50, device=batch["x"].device)
            return super().loss(batch)

    with pytest.raises(BudgetError, match="device cuda:0: no memory left for passes of 16 samples") as caught:
        train(tmp_path, task=Wide(), device="cuda", **loaders())
    assert "\n" not in str(caught.value)
