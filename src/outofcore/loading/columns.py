"""Columns of the sequences, one value per sample: the Elo of a game, the author of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outofcore.errors import ParamsError
from outofcore.loading.several import Sequences
from outofcore.loading.windows import Windows

Ints = npt.NDArray[np.int64]

NUMBER = "sequence"
"""The name under which a sequence's number in its split is asked for."""

SOURCE = "source"
"""The name of the number of a sample's source in a mixture."""

_WIDER = {"uint16": np.int32, "uint32": np.int64}


class SequenceColumns:
    """Values of a split's sequences, held once read; a sample belongs to the sequence of its first row, or its last."""

    def __init__(
        self, sequences: Sequences, windows: Windows, names: tuple[str, ...], sources: Ints | None = None
    ) -> None:
        self._sources = sources
        self._sequences = sequences
        self._ahead = windows.length - 1 if windows.window is not None and windows.window.mode == "reach" else 0
        self._count = len(sequences)
        self._arrays = {name: None if name == NUMBER else sequences[name] for name in names}
        for name, array in self._arrays.items():
            if array is not None and array.dtype == "O":
                message = (
                    f"columns: {sequences.path}/{name} holds text, which no tensor can; use {NUMBER!r} to look it up"
                )
                raise ParamsError(message)
        self._starts = np.empty(0, np.int64)
        self._values: dict[str, npt.NDArray[Any]] = {}

    @property
    def bytes(self) -> int:
        """Memory of first rows and values."""
        values = sum(values.nbytes for name, values in self._blank().items() if name != NUMBER)
        return self._count * (8 + values) if self._arrays else 0

    def blank(self) -> dict[str, npt.NDArray[Any]]:
        """Values of one sample that belongs to no sequence, by column."""
        return self._blank() | ({} if self._sources is None else {SOURCE: np.zeros(1, np.int64)})

    def _blank(self) -> dict[str, npt.NDArray[Any]]:
        return {
            name: np.zeros(1, np.int64) if array is None else indexable(np.zeros((1, *array.shape[1:]), array.dtype))
            for name, array in self._arrays.items()
        }

    def read(self) -> None:
        if not self._arrays:
            return
        self._starts = self._sequences.extents()[0]
        self._values = {
            name: self._sequences.read(name, indexable(np.empty(0, array.dtype)).dtype)
            for name, array in self._arrays.items()
            if array is not None
        }

    def of(self, first: Ints) -> dict[str, npt.NDArray[Any]]:
        """Values by column (samples,), by the first row of each sample."""
        rows = first + self._ahead
        sequence = np.searchsorted(self._starts, rows, "right") - 1
        values = {name: sequence if name == NUMBER else self._values[name][sequence] for name in self._arrays}
        if self._sources is not None:
            values[SOURCE] = np.searchsorted(self._sources, rows, "right") - 1
        return values


def with_columns(tensors: dict[str, torch.Tensor], values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """A batch and its columns, on the same device. Raises ParamsError if a tensor already has a column's name."""
    taken = [name for name in values if name in tensors]
    if taken:
        message = f"columns: the tensors already contain {taken[0]!r}"
        raise ParamsError(message)
    where = next(iter(tensors.values())).device
    return {**tensors, **{name: torch.from_numpy(column).to(where) for name, column in values.items()}}


def indexable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers in a dtype that torch can index: unsigned words widened, uint64 with its bits as int64."""
    plain = array.view(np.int64) if array.dtype == np.uint64 else array
    return plain.astype(_WIDER.get(plain.dtype.name, plain.dtype), copy=False)
