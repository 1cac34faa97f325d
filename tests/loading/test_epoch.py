"""Devices by their index, and batches that are where they belong already."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from outofcore.errors import ParamsError
from outofcore.loading.arguments import named_device
from outofcore.loading.epoch import Transfer


class OnGpu:
    """A tensor on a GPU, which cannot be pinned."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.moved: list[torch.device] = []

    def pin_memory(self) -> Any:
        message = "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"
        raise RuntimeError(message)

    def to(self, device: torch.device, *, non_blocking: bool) -> OnGpu:
        assert non_blocking
        self.moved.append(device)
        return self


@pytest.mark.parametrize("there", ["cuda:0", "cuda:1"])
def test_what_is_on_a_gpu_is_not_pinned(there: str) -> None:
    transfer = Transfer(None)
    transfer.device = torch.device("cuda")
    tensor: Any = OnGpu(there)
    assert transfer._copy(tensor) is tensor


def test_a_device_gets_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made:
        device = torch.device("cuda:0")

    assert named_device(None) is None
    assert named_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch, "empty", lambda *_, **__: Made)
    assert named_device("cuda") == named_device(torch.device("cuda")) == torch.device("cuda:0")


@pytest.mark.parametrize("device", ["gpu", "cuda:99", 0, "mps:7"])
def test_a_device_that_is_not_there_is_refused(device: Any) -> None:
    with pytest.raises(ParamsError, match="device: expected a device of this machine"):
        named_device(device)
