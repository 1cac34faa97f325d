"""Train on data larger than memory.

Raw PGN, SGF, text and neural recordings become sealed Zarr stores; training reads them lazily within a memory budget:

    import outofcore

    outofcore.convert("chess", "games/", "chess.zarr")
    for batch in outofcore.loader("chess.zarr", "train", 1024, memory="256MiB"):
        ...
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from outofcore.errors import OutOfCoreError as OutOfCoreError

if TYPE_CHECKING:
    from outofcore.arrays import write_store as write_store
    from outofcore.domains.task import Batch as Batch
    from outofcore.domains.text.tensors import causal_lm as causal_lm
    from outofcore.evaluating import evaluate as evaluate
    from outofcore.loading.dataset import ZarrDataset as ZarrDataset
    from outofcore.loading.iteration import Loader as Loader
    from outofcore.loading.loader import loader as loader
    from outofcore.loading.split import reading as reading
    from outofcore.models import load_model as load_model
    from outofcore.order.balanced import Balanced as Balanced
    from outofcore.order.mixture import Mixture as Mixture
    from outofcore.order.plain import InOrder as InOrder
    from outofcore.order.plain import Shuffle as Shuffle
    from outofcore.order.weighted import Weighted as Weighted
    from outofcore.order.windows import Window as Window
    from outofcore.pipeline import convert as convert
    from outofcore.store.foreign import open_zarr as open_zarr
    from outofcore.store.reader import Store as Store
    from outofcore.store.reader import open_store as open_store
    from outofcore.store.token_files import open_tokens as open_tokens
    from outofcore.streaming import stream as stream
    from outofcore.tokenizer import train_tokenizer as train_tokenizer
    from outofcore.training.run import train as train

    __version__: str

# Imported on first use: the command line needs no torch, and most commands no compiler.
_LAZY = {
    "Balanced": "outofcore.order.balanced",
    "Batch": "outofcore.domains.task",
    "InOrder": "outofcore.order.plain",
    "Loader": "outofcore.loading.iteration",
    "Mixture": "outofcore.order.mixture",
    "Shuffle": "outofcore.order.plain",
    "Store": "outofcore.store.reader",
    "Weighted": "outofcore.order.weighted",
    "Window": "outofcore.order.windows",
    "ZarrDataset": "outofcore.loading.dataset",
    "causal_lm": "outofcore.domains.text.tensors",
    "convert": "outofcore.pipeline",
    "evaluate": "outofcore.evaluating",
    "load_model": "outofcore.models",
    "loader": "outofcore.loading.loader",
    "open_store": "outofcore.store.reader",
    "open_tokens": "outofcore.store.token_files",
    "open_zarr": "outofcore.store.foreign",
    "reading": "outofcore.loading.split",
    "stream": "outofcore.streaming",
    "train": "outofcore.training.run",
    "train_tokenizer": "outofcore.tokenizer",
    "write_store": "outofcore.arrays",
}
__all__ = ["OutOfCoreError", *_LAZY]


if not TYPE_CHECKING:  # so that a type checker knows which names there are

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("outofcore")
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
