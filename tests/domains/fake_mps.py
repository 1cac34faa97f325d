"""A device like Apple's MPS, which has no float64: tensors of this machine's memory that refuse to become doubles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

MPS = torch.device("mps:0")


class OnMps(Tensor):
    """A tensor that says that it is on MPS."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func == Tensor.device.__get__:
            return MPS
        if func is Tensor.cpu:
            with torch._C.DisableTorchFunctionSubclass():
                return args[0].as_subclass(Tensor)
        return checked(super().__torch_function__(func, types, args, kwargs or {}))


class FakeMps(TorchFunctionMode):
    """Makes on that device what is asked for there."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == MPS:
            return checked(func(*args, **{**kwargs, "device": "cpu"}).as_subclass(OnMps))
        if func is Tensor.to and MPS in args:
            return checked(args[0].as_subclass(OnMps))
        return func(*args, **kwargs)


def checked(result: Any) -> Any:
    def refuse(value: Any) -> Any:
        if isinstance(value, OnMps) and value.dtype == torch.float64:
            message = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
            raise TypeError(message)
        return value

    return tree_map(refuse, result)


def on_mps(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.as_subclass(OnMps) for name, tensor in batch.items()}
