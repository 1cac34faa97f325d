"""Memory for tensors with guard bytes around it, which show whether compiled code writes outside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from outofcore.system.recycling import Recycler

_GUARD, _VALUE = 1 << 16, 0xA5


class GuardedMemory(Recycler):
    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[np.ndarray[Any, Any]] = []

    def empty(self, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        self._blocks.append(np.full(size + 2 * _GUARD, _VALUE, np.uint8))
        return self._blocks[-1][_GUARD:-_GUARD].view(dtype).reshape(shape)

    def untouched(self) -> bool:
        """Whether memory was asked for, and all guards are as they were."""
        guards = [guard for block in self._blocks for guard in (block[:_GUARD], block[-_GUARD:])]
        return bool(guards) and all((guard == _VALUE).all() for guard in guards)
