"""What the loaders are compared on: what a row holds, how many make a batch, and how rows become tensors.

Imports nothing of this project: the libraries beside it run in an environment of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Batch = dict[str, torch.Tensor]
HEIGHT, WIDTH, CELLS = 36, 64, 16
LENGTH = 512


@dataclass(frozen=True)
class RowSet:
    """Rows of one kind.

    Attributes
    ----------
    row
        What a row holds, each field in a ``.npy`` file of its own; libraries that store records get its bytes.
    batch
        Rows of a batch.
    read
        Makes tensors of rows: of a structured array, or of a dict of columns.
    """

    row: np.dtype[Any]
    batch: int
    read: Callable[[Any], Batch]

    def as_batch(self, records: list[bytes]) -> Batch:
        """Tensors of records."""
        return self.read(np.frombuffer(b"".join(records), self.row))


def read_positions(rows: Any) -> Batch:
    boards = np.ascontiguousarray(rows["boards"]).view(np.uint8).reshape(len(rows["move"]), 12, 8)
    return {
        "planes": torch.from_numpy(np.unpackbits(boards, axis=2, bitorder="little").reshape(-1, 12, 8, 8)),
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
