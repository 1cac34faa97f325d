"""Networks of a user in place of those that ship: named in params.yaml as ``package.module:Class``, or passed.

A class is imported only if a program or a params file of the user names it, never because a model file does.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from outofcore.errors import ParamsError

if TYPE_CHECKING:
    from torch import nn

_classes: dict[str, type[nn.Module] | None] = {}  # by name; None until the class is imported
_SAMPLES = 2


def network_setting(shipped: str) -> Any:
    """The setting ``network`` of ``train``: the network that ships, or a class."""
    return Field(
        shipped,
        pattern=rf"^({shipped}|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)$",
        exclude_if=lambda name: ":" not in name,
        description=f"{shipped}, which ships, or a class of your own: package.module:Class",
    )


def own_name(section: Any) -> str:
    """The name of the network of a section of params.yaml if it is a class of the user's; "" else."""
    name: str = getattr(getattr(section, "train", None), "network", "")
    return name if ":" in name else ""


def allow_network(network: str | type[nn.Module], name: str = "") -> str:
    """Let a network be made that the user has named or passed, here as ``name``; returns its name."""
    if isinstance(network, str):
        _classes.setdefault(network, None)
        return network
    name = name or f"{network.__module__}:{network.__qualname__}"
    _classes[name] = network
    return name


def network_class(name: str) -> type[nn.Module]:
    """The class of this name; raises ParamsError if the user has not named it, or it is none."""
    if name not in _classes:
        raise ParamsError(
            f"this model needs the network {name}: pass the class, as in outofcore.load_model(path, network=...), or "
            "run in its project, whose params.yaml names it"
        )
    from torch import nn  # late: settings are read without torch

    module, _, attributes = name.partition(":")
    if _classes[name] is None:
        try:
            sys.path.append(str(Path.cwd()))  # a project's own modules are next to its params.yaml
            found: Any = import_module(module)
            for attribute in attributes.split("."):
                found = getattr(found, attribute)
        except (ImportError, AttributeError) as error:
            raise ParamsError(f"train.network: expected an importable class, got {name!r}: {error}") from error
        finally:
            sys.path.pop()
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise ParamsError(f"train.network: expected a subclass of torch.nn.Module, got {name}, {found!r}")
        _classes[name] = found
    network = _classes[name]
    assert network is not None
    return network


def source_digest(name: str) -> str:
    """SHA-256 of the file of a network's class, or of the class where it has none, as in a notebook."""
    network = network_class(name)
    file = inspect.getsourcefile(network)
    source = Path(file).read_bytes() if file and Path(file).is_file() else inspect.getsource(network).encode()
    return hashlib.sha256(source).hexdigest()


def own_network(
    name: str, inputs: Sequence[tuple[Any, ...]], outputs: Callable[[Any], Sequence[tuple[int, ...]]], **facts: Any
) -> Any:
    """Make a network of a class with keyword arguments, and check what it returns for a batch of zeros.

    ``inputs`` are shape without the batch, and dtype, of each argument, or nothing for None; ``outputs`` gives the
    shapes, without the batch, of what the network has to return. Raises ParamsError.
    """
    import torch

    cls = network_class(name)
    try:
        if torch.get_default_device().type == "meta":
            return _planned(cls, facts)
        network = cls(**facts)
        with torch.no_grad():
            arguments = [torch.zeros(_SAMPLES, *given[0], dtype=given[1]) if given else None for given in inputs]
            returned: Any = network.eval()(*arguments)
        network.train()
        tensors = (returned,) if isinstance(returned, torch.Tensor) else returned
        shapes, wanted = [tuple(tensor.shape) for tensor in tensors], [(_SAMPLES, *each) for each in outputs(network)]
    except ParamsError:
        raise
    except Exception as error:
        raise ParamsError(
            f"train.network: {name} failed on a batch of zeros, {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    if shapes != wanted:
        expected = f"expected {name} to return {_shown(wanted)} for a batch of {_SAMPLES}"
        raise ParamsError(f"train.network: {expected}, got {_shown(shapes)}")
    return network


def _planned(cls: type[nn.Module], facts: dict[str, Any]) -> nn.Module:
    """A network on the meta device; in memory if it reads values of tensors when it is made, which are none there."""
    import torch

    try:
        return cls(**facts)
    except (RuntimeError, TypeError):
        with torch.device("cpu"):
            return cls(**facts)


def _shown(shapes: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(map(str, shapes)) or "nothing"
