"""A user's program, checked by mypy with the rest: every public name has its type, and a wrong argument is an error."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader

import outofcore
from outofcore import ZarrDataset, load_model, loader, open_store, reading, write_store

store = open_store("chess.zarr")
batches = loader(store, "train", 1024, memory="256MiB", tensors=reading(store))
for batch in batches:
    planes: torch.Tensor = batch["planes"]
    state = batches.state_dict()
drawn = outofcore.Weighted("plies", pool_blocks=8)
loader(store, shuffle=drawn, tensors=("planes", "result"), window=outofcore.Window(length=8, phase=True))
loader({"a": store}, shuffle=outofcore.Mixture({"a": 1}, stop="all"))
sample: dict[str, torch.Tensor] = ZarrDataset(store, "val")[0]
mine = write_store("mine.zarr", {"x": planes.numpy()}, splits={"val": 0.05}, groups=[1, 2])
rows: dict[str, int] = mine.attributes["rows"]
outofcore.train_tokenizer("corpus/", "tokenizer.json", vocab_size=8192)
with outofcore.stream("text", "corpus/", tokenizer="tokenizer.json", seq_len=256, batch_size=64) as stream:
    for batch in DataLoader(stream, batch_size=None):
        inputs: torch.Tensor = batch["inputs"]
    stream.load_state_dict(stream.state_dict())
    epoch: int = stream.epoch
outofcore.stream("text", [{"text": "Call me Ishmael."}], column="text", params="params.yaml")
model = load_model("models/chess", device="cpu")
expected: torch.Tensor = model(batch)["target"]
predictions = model.predict("game.pgn", best=3)
played: list[str] = [row["played"] for row in predictions]
accuracy: float = predictions.figures["top1"]
weights: int = sum(each.numel() for each in model.task.parameters())
version: str = outofcore.__version__
outofcore.stream("text", 5)  # type: ignore[arg-type]
loader(store, batch_size="many")  # type: ignore[arg-type]
loader(store, pool_blocks=8)  # type: ignore[arg-type]
load_model(3)  # type: ignore[arg-type]
outofcore.loade  # type: ignore[attr-defined]  # noqa: B018
