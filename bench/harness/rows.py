"""What loaders are compared on: rows of three kinds, and how they become tensors. Imports nothing of this project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Batch = dict[str, torch.Tensor]
HEIGHT, WIDTH, CELLS = 36, 64, 16
LENGTH = 512


@dataclass(frozen=True)
class RowSet:
    """Rows of one kind."""

    row: np.dtype[Any]  # each field is a .npy file; libraries that store records get the bytes of all
    batch: int
    read: Callable[[Any], Batch]  # tensors of a structured array, or of a dict of columns

    def as_batch(self, records: list[bytes]) -> Batch:
        """Tensors of records."""
        return self.read(np.frombuffer(b"".join(records), self.row))


def read_positions(rows: Any) -> Batch:
    bits = np.unpackbits(np.ascontiguousarray(rows["boards"]).view(np.uint8), axis=None, bitorder="little")
    return {
        "planes": torch.from_numpy(bits.reshape(-1, 12, 8, 8)),
        "move": torch.from_numpy(rows["move"].astype(np.int64)),
        "result": torch.from_numpy(rows["result"].copy()),
    }


def read_tokens(rows: Any) -> Batch:
    tokens = torch.from_numpy(rows["tokens"].astype(np.int64))
    return {"inputs": tokens[:, :-1], "targets": tokens[:, 1:]}


def read_frames(rows: Any) -> Batch:
    return {name: torch.from_numpy(np.require(rows[name], requirements="CW")) for name in ("frame", "response")}


SETS = {
    "chess": RowSet(np.dtype([("boards", "<u8", (12,)), ("move", "<u2"), ("result", "i1")]), 1024, read_positions),
    "text": RowSet(np.dtype([("tokens", "<u2", (LENGTH + 1,))]), 64, read_tokens),
    "frames": RowSet(np.dtype([("frame", "u1", (HEIGHT, WIDTH)), ("response", "<f4", (CELLS,))]), 256, read_frames),
}


def sizes(batches: Iterable[Batch]) -> Iterator[int]:
    """Rows of each batch."""
    return (len(next(iter(batch.values()))) for batch in batches)
