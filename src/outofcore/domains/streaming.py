"""Optional interface of a domain that can train directly from raw files, without a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from outofcore.raw.files import RawFile

if TYPE_CHECKING:
    import torch

Choose = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.bool_]]
"""Selects the records of a split by their keys, shape (n, 16)."""

RAW = "raw text"
"""Name of this way of reading in the plan."""


@runtime_checkable
class Streaming(Protocol):
    """A domain that can stream."""

    def streamed(self, section: Any) -> bool:
        """Whether the section asks for streaming."""
        ...

    def raw_files(self, section: Any) -> Sequence[RawFile]:
        """The files to stream, in order."""
        ...

    def stream_settings(self, section: Any) -> dict[str, Any]:
        """Settings that decide the samples and their order, as JSON values."""
        ...

    def stream_bytes(self, section: Any, threads: int) -> int:
        """Most bytes that one of the loaders of :meth:`stream` holds, with so many threads."""
        ...

    def stream(
        self,
        files: Sequence[RawFile],
        section: Any,
        attributes: Mapping[str, Any],
        split: Literal["train", "val"],
        choose: Choose,
        *,
        memory: int,
        threads: int,
        device: torch.device,
    ) -> Any:
        """A loader for training: shuffled and endless for ``train``, in order for ``val``.

        Its ``tally`` counts the records read, with ``figures()``. ``attributes`` are those that a store of the input
        would have; ``choose`` selects records of the split by key; ``memory`` is in bytes; ``threads`` units are
        converted at a time.
        """
        ...
