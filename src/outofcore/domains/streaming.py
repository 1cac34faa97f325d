"""Optional interface of a domain that can give batches directly from raw files, without a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from outofcore.raw.files import RawFile

if TYPE_CHECKING:
    import torch

RAW = "raw text"
"""Name of this way of reading in the plan."""


@runtime_checkable
class Streaming(Protocol):
    """A domain that can stream."""

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
