"""A user's program, checked by mypy with the rest: every public name has its type, and a wrong argument is an error."""

from __future__ import annotations

import torch

import outofcore
from outofcore import ZarrDataset, loader, open_store, reading, write_store

store = open_store("chess.zarr")
batches = loader(store, "train", 1024, memory="256MiB", tensors=reading(store))
for batch in batches:
    planes: torch.Tensor = batch["planes"]
    state = batches.state_dict()
sample: dict[str, torch.Tensor] = ZarrDataset(store, "val")[0]
mine = write_store("mine.zarr", {"x": planes.numpy()}, splits={"val": 0.05}, groups=[1, 2])
rows: dict[str, int] = mine.attributes["rows"]
version: str = outofcore.__version__
loader(store, batch_size="many")  # type: ignore[arg-type]
outofcore.loade  # type: ignore[attr-defined]  # noqa: B018
