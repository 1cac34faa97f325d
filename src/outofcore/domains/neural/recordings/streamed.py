"""Arrays that can only be read sequentially: compressed members, text."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from zstandard import ZstdError

from outofcore.domains.neural.recordings.recording import clean

BLOCK_BYTES = 1 << 20


class StreamedArray:
    """An array of consecutive blocks; reading backwards starts the stream again.

    A read at or after the start of the previous one continues the stream; earlier data is discarded. ``blocks`` yields
    the blocks in order from the first.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Callable[[], Iterator[npt.NDArray[Any]]]
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self._blocks = blocks
        self._running: Iterator[npt.NDArray[Any]] | None = None
        self._held: list[tuple[int, npt.NDArray[Any]]] = []
        self._position = 0
        self._broken: tuple[int, str] | None = None

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries ``start`` to ``stop``."""
        first = self._held[0][0] if self._held else self._position
        if self._running is None or start < first:
            self._running, self._held, self._position = self._blocks(), [], 0
        while self._position < stop:
            self._advance()
            self._held = [(at, block) for at, block in self._held if at + len(block) > start]
        self._held = [(at, block) for at, block in self._held if at + len(block) > start]
        parts = [block[max(start - at, 0) : stop - at] for at, block in self._held if at < stop]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *parts])

    def _advance(self) -> None:
        if self._broken is not None and self._position >= self._broken[0]:
            raise OSError(self._broken[1])
        assert self._running is not None
        try:
            block = next(self._running)
        except (OSError, EOFError, BadZipFile, zlib.error, lzma.LZMAError, ZstdError, StopIteration) as error:
            self._broken = (self._position, f"damaged from entry {self._position} on: {clean(error)}")
            raise OSError(self._broken[1]) from error
        self._held.append((self._position, block))
        self._position += len(block)
