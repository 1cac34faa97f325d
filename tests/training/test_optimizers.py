from __future__ import annotations

import logging
import sys

import pytest
import torch
from torch import nn

from outofcore.errors import ParamsError
from outofcore.training.checkpoint import Checkpoint, Progress
from outofcore.training.optimizers import make_optimizer


def train(name: str) -> tuple[float, int]:
    """Loss after some steps, and bytes of the optimizer's states."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    x = torch.randn(256, 64)
    optimizer = make_optimizer(model, name, learning_rate=1e-3, weight_decay=0.01)
    for _ in range(30):
        loss = (model(x) - x.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    return loss.item(), sum(value.nbytes for value in states)


def test_weight_decay_spares_biases_and_scales():
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(1, 8), nn.Linear(3, 2))
    decayed, plain = make_optimizer(model, "adamw", learning_rate=1e-3, weight_decay=0.1).param_groups
    assert decayed["weight_decay"] == 0.1
    assert plain["weight_decay"] == 0
    assert {parameter.ndim for parameter in plain["params"]} == {1}
    assert len(decayed["params"]) + len(plain["params"]) == len(list(model.parameters()))


def test_frozen_parameters_are_left_out():
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    (group,) = make_optimizer(model, "adamw", learning_rate=1e-3, weight_decay=0.1).param_groups
    assert group["params"] == [model.weight]


def test_eight_bit_states_take_less_memory_and_learn_alike():
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    loss, states = train("adamw")
    loss_8bit, states_8bit = train("adamw8bit")
    assert loss_8bit == pytest.approx(loss, rel=0.01)
    assert states_8bit < 0.4 * states


def test_eight_bit_states_go_through_a_checkpoint(tmp_path):
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    def begin() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(64, 128)
        return model, make_optimizer(model, "adamw8bit", learning_rate=1e-2, weight_decay=0.0)

    model, optimizer = begin()
    step(model, optimizer)
    Checkpoint("run", {}, model.state_dict(), optimizer.state_dict(), Progress()).save(tmp_path / "checkpoint.pt")
    step(model, optimizer)
    saved = Checkpoint.load(tmp_path / "checkpoint.pt")
    assert saved is not None
    again, optimizer = begin()
    again.load_state_dict(saved.model)
    optimizer.load_state_dict(saved.optimizer)
    assert torch.uint8 in {value.dtype for value in optimizer.state[again.weight].values() if torch.is_tensor(value)}
    step(again, optimizer)
    assert torch.equal(again.weight, model.weight)


def test_the_package_reports_no_kernel_that_is_not_used(monkeypatch, tmp_path):
    """Its warning comes while it is imported, and reaches the terminal where nobody has set up logging."""
    (tmp_path / "bitsandbytes").mkdir()
    (tmp_path / "bitsandbytes/__init__.py").write_text("")
    code = "import logging, torch\nlogging.getLogger('bitsandbytes.backends.cpu.ops').warning('no kernel')\n"
    (tmp_path / "bitsandbytes/optim.py").write_text(f"{code}AdamW8bit = torch.optim.AdamW\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "bitsandbytes"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    monkeypatch.setattr(logging.Logger, "handle", lambda _, record: seen.append(record.getMessage()))
    make_optimizer(nn.Linear(2, 2), "adamw8bit", learning_rate=1e-3, weight_decay=0.0)
    for name in ("bitsandbytes", "bitsandbytes.optim"):
        del sys.modules[name]  # monkeypatch would put it back, for the tests that follow
    assert seen == []


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    with pytest.raises(ParamsError, match=r"pip install 'outofcore\[adamw8bit\]'"):
        make_optimizer(nn.Linear(2, 2), "adamw8bit", learning_rate=1e-3, weight_decay=0.0)
