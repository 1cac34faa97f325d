"""AdamW as torch has it, bit for bit."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from outofcore.training.adamw import AdamW


def groups(model: nn.Module) -> list[dict[str, object]]:
    return [
        {"params": [each for each in model.parameters() if each.ndim >= 2], "weight_decay": 0.1},
        {"params": [each for each in model.parameters() if each.ndim < 2], "weight_decay": 0.0},
    ]


def models() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(37, 129), nn.ReLU(), nn.Linear(129, 5), nn.Linear(5, 5))
    return model, copy.deepcopy(model)


def train(model: nn.Module, optimizer: AdamW | torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 / (1 + step)
        optimizer.zero_grad()
        layers = model if step % 3 else model[:3]  # the last layer has no gradient in every third step
        layers(torch.randn(16, 37, generator=torch.Generator().manual_seed(step))).square().mean().backward()
        optimizer.step()


def equal(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


def test_it_is_that_of_torch() -> None:
    one, other = models()
    train(one, AdamW(groups(one), 1e-2), range(20))
    train(other, torch.optim.AdamW(groups(other), 1e-2, fused=True), range(20))
    assert equal(one, other)


@pytest.mark.parametrize("saved_by", [AdamW, partial(torch.optim.AdamW, fused=True)], ids=["itself", "torch"])
def test_it_resumes_from_states(saved_by: Any) -> None:
    one, other = models()
    first, second, throughout = saved_by(groups(one), 1e-2), AdamW(groups(one), 1e-2), AdamW(groups(other), 1e-2)
    train(one, first, range(7))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    train(one, second, range(7, 12))
    train(other, throughout, range(12))
    assert equal(one, other)


def test_states_of_other_groups_are_refused() -> None:
    one, other = models()
    saved = AdamW(groups(one), 1e-2).state_dict()
    with pytest.raises(ValueError, match="zip"):
        AdamW(groups(other)[:1], 1e-2).load_state_dict(saved)
