"""What a domain offers that can train straight from raw files, storing nothing; the others leave this out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from outofcore.raw.files import RawFile

if TYPE_CHECKING:
    import torch

Choose = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.bool_]]
"""Which records belong to a split, by their keys, shape (n, 16)."""


@runtime_checkable
class Streaming(Protocol):
    """A domain that can stream."""

    def streamed(self, section: Any) -> bool:
        """Whether the section asks for it."""
        ...

    def raw_files(self, section: Any) -> Sequence[RawFile]:
        """What is streamed, in order."""
        ...

    def stream_settings(self, section: Any) -> dict[str, Any]:
        """The settings that decide which samples there are and in which order; JSON values."""
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
        """A loader as training takes it: shuffled without end for ``train``, in order for ``val``.

        It has a ``tally`` of the records that it has read, with ``figures()``.

        Parameters
        ----------
        files, section
            The raw input and how it is read.
        attributes
            What a store of it would say of itself.
        split, choose
            Which records.
        memory
            Bytes that it may hold.
        threads
            Units converted at a time.
        device
            Where batches go.
        """
        ...
