from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from outofcore.domains.text import cross_entropy as module
from outofcore.domains.text.cross_entropy import IGNORED, cross_entropy, token_losses


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    monkeypatch.setattr(module, "CHUNK_SCORES", 200)  # 6 tokens at a time
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(40, 8, generator=generator, requires_grad=True)
    weight = torch.randn(30, 8, generator=generator, requires_grad=True)
    return hidden, weight, torch.randint(0, 30, (40,), generator=generator)


def gradients(loss: torch.Tensor, *tensors: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, tensors))


def test_loss_and_gradients_are_those_of_torch(case):
    hidden, weight, targets = case
    expected = functional.cross_entropy(hidden @ weight.T, targets, reduction="sum")
    found = cross_entropy(hidden, weight, targets)
    assert torch.allclose(found, expected)
    for ours, theirs in zip(gradients(found * 3, hidden, weight), gradients(expected * 3, hidden, weight), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_ignored_targets_count_nothing(case):
    hidden, weight, targets = case
    targets[::3] = IGNORED
    expected = functional.cross_entropy(hidden @ weight.T, targets, reduction="sum")
    found = cross_entropy(hidden, weight, targets)
    assert torch.allclose(found, expected)
    for ours, theirs in zip(gradients(found, hidden, weight), gradients(expected, hidden, weight), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    assert torch.allclose(token_losses(hidden, weight, targets).sum(), expected)


def test_bfloat16_gives_gradients_in_the_types_of_what_they_belong_to(case):
    hidden, weight, targets = case
    narrow = hidden.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        found = cross_entropy(narrow, weight, targets)
        expected = functional.cross_entropy(functional.linear(narrow, weight), targets, reduction="sum")
    assert torch.allclose(found, expected, rtol=1e-3)
    ours, theirs = gradients(found, narrow, weight), gradients(expected, narrow, weight)
    assert [tensor.dtype for tensor in ours] == [torch.bfloat16, torch.float32]
    for mine, reference in zip(ours, theirs, strict=True):
        assert torch.allclose(mine.float(), reference.float(), atol=0.05, rtol=0.05)


def test_losses_of_each_token(case):
    hidden, weight, targets = case
    expected = functional.cross_entropy(hidden @ weight.T, targets, reduction="none")
    found = token_losses(hidden, weight, targets)
    assert torch.allclose(found, expected, atol=1e-6)
    assert not found.requires_grad
