"""How stored rows become tensors, or raw files batches: the interface between loading and a domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

    from outofcore.raw.files import RawFile

Draws = npt.NDArray[np.uint64]
"""A random word for each sample of a batch, by its place in the epoch."""
RAW = "raw text"
"""Name of this way of reading in the plan."""


class Reading(Protocol):
    """How stored rows become tensors; made by :meth:`outofcore.domains.domain.Domain.reading`.

    Attributes
    ----------
    fields
        Row fields to read.
    """

    @property
    def fields(self) -> tuple[str, ...]:
        """Row fields that it needs."""
        ...

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, torch.Tensor]:
        """Turn the rows of some samples into tensors, whose first axis is the sample.

        A sample's tensors depend only on its rows and its random word, not on the other samples: batches
        are the same for any number of samples per call and any number of ranks.
        That of a domain is also called with rows of zeros, to know how large its tensors are.

        Parameters
        ----------
        rows
            Arrays (samples, ...) by field, or (samples, window, ...) where samples are windows.
        draws
            (samples,) random words, the source of every random choice (augmentation).
        """
        ...


@runtime_checkable
class Augmenting(Protocol):
    """A reading with random augmentation (mirrors, symmetries), applied only to the split ``train``."""

    def plain(self) -> Reading:
        """The same reading without augmentation."""
        ...


def reading_for(split: str, reading: Reading) -> Reading:
    """The reading of a split: augmented for ``train`` only."""
    return reading.plain() if split != "train" and isinstance(reading, Augmenting) else reading


@runtime_checkable
class OfSequences(Protocol):
    """A reading that also takes columns of the sequences (games, documents), such as the ratings of players.

    They come with the rows under their names, as if each row had them: (samples,) or (samples, window). No row field
    has the name of one.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it needs."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """A reading that knows the window of rows per sample."""

    @property
    def window(self) -> Mapping[str, Any] | None:
        """Arguments of :class:`outofcore.order.windows.Window`; None if a sample is a row."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """A domain that can give batches directly from raw files, without a store."""

    def streamed(self, section: Any) -> bool:
        """Whether the section asks for streaming."""
        ...

    def raw_files(self, section: Any, records: Iterable[Mapping[str, Any]] | None = None) -> Sequence[RawFile]:
        """The files to stream, in order, or ``records`` in the form of a file."""
        ...

    def stream_settings(self, section: Any) -> dict[str, Any]:
        """Settings that decide the samples and their order, as JSON values."""
        ...

    def stream_bytes(self, section: Any, threads: int) -> int:
        """Most bytes that one stream holds, with so many threads."""
        ...

    def stream(
        self,
        files: Sequence[RawFile],
        section: Any,
        split: str,
        *,
        shuffle: bool,
        memory: int,
        threads: int,
        device: torch.device | None,
    ) -> Any:
        """The batches of a split, by the section's settings; its ``tally`` counts the records read.

        ``memory`` is in bytes; ``threads`` units are converted at a time.
        """
        ...
