"""What a run leaves is of its model alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from outofcore.training.results import model_digest, write_model, write_plots
from tests.training.small import WeightedRegression


class Drawn(WeightedRegression):
    """Draws and writes what it is told to."""

    names: tuple[str, ...] = ()

    def plots(self, _sums: object) -> dict[str, list[dict[str, float]]]:
        return {name: [{"x": 1.0}] for name in self.names}

    def pictures(self) -> dict[str, bytes]:
        return dict.fromkeys(self.names, b"png")

    def works(self) -> dict[str, str]:
        return dict.fromkeys(self.names, "words")


def test_a_folder_that_is_used_again_keeps_nothing_of_the_earlier_model(tmp_path: Path) -> None:
    task = Drawn()
    for names in (("a", "b"), ("b",), ()):
        task.names = names
        write_plots(tmp_path / "plots", task, {})
        write_model(tmp_path / "models", task, json.dumps({}), 0)
        left = {path.name for path in (tmp_path / "plots").iterdir()}
        assert left == {f"{name}.{ending}" for name in names for ending in ("csv", "png")}
        assert {path.name for path in (tmp_path / "models").iterdir()} == {"model.pt", *(f"{n}.txt" for n in names)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_a_model_is_named_by_its_weights(dtype: torch.dtype) -> None:
    weights = {"b": torch.arange(6).reshape(2, 3).to(dtype), "a": torch.tensor(1, dtype=dtype)}
    digest = model_digest(weights)
    assert model_digest(dict(reversed(weights.items()))) == digest
    assert model_digest({**weights, "b": weights["b"].T.contiguous().T}) == digest
    assert model_digest({**weights, "a": torch.tensor(2, dtype=dtype)}) != digest
    assert model_digest({"b": weights["b"], "c": weights["a"]}) != digest
