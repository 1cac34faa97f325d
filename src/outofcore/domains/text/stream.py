"""Batches directly from raw text, in the same form and with the same guarantees as from a store."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outofcore.domains.reading import Reading
from outofcore.domains.streaming import Choose
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.tokenizer import Tokenizer, load_tokenizer
from outofcore.domains.text.windows import RawText, Tally, units_in_memory
from outofcore.errors import BudgetError, StateError
from outofcore.raw.files import RawFile

VERSION = 1
# Memory of a unit being tokenized: its bytes, twice, and its ids of four and two bytes.
UNIT_BYTES = 12 << 20
# Memory of a thread's engine, without its cache.
ENGINE_BYTES = 32 << 20


def stream_bytes(section: TextSection, threads: int) -> int:
    """Most bytes held by a stream that tokenizes this many units at a time, not counting words cached by the engine."""
    length, item = section.tensors.seq_len + 1, np.dtype(load_tokenizer(section).dtype).itemsize
    # One pool is being consumed; the next is gathered, then joined, and so held twice.
    pools = 3 * section.stream.shuffle_windows * length * item
    batches = 2 * section.train.batch_size * length * 8
    return pools + batches + units_in_memory(threads) * UNIT_BYTES + threads * ENGINE_BYTES


class TextStream:
    """Iterates over the batches of an epoch, tokenizing in the background; nothing is stored.

    The text is read sequentially, file after file; pools of ``stream.shuffle_windows`` windows are shuffled while the
    next is made. An iteration is an epoch: ``samples`` windows, or the whole text (counted first) if None. With
    ``repeat`` the text restarts if it is shorter; otherwise the epoch is. The order depends only on text, params, seed
    and epoch (``identity`` is their digest, ``epoch`` the current or next one). ``choose`` selects documents of the
    split by keys (n, 16) uint8; ``device`` None keeps batches in host memory.

    Raises BudgetError if ``memory`` bytes do not suffice for two pools and the units in flight.
    """

    def __init__(
        self,
        files: Sequence[RawFile],
        section: TextSection,
        reading: Reading,
        choose: Choose,
        *,
        batch_size: int,
        samples: int | None,
        repeat: bool = True,
        memory: int,
        threads: int = 1,
        seed: int = 0,
        shuffle: bool = True,
        device: torch.device | None = None,
    ) -> None:
        self.section = section
        self.batch_size = batch_size
        self.epoch = 0
        self._text = RawText(tuple(files), section, choose, seed if shuffle else None, threads)
        self._reading = reading
        self._seed = seed
        self._shuffle = shuffle
        self._device = device
        self._size = section.stream.shuffle_windows
        tokenizer = load_tokenizer(section)
        self.identity = _identity(files, section, tokenizer, seed, shuffle=shuffle)
        self._limit = samples
        self._samples = samples if repeat else None
        self._given = 0  # windows of the epoch that the consumer has received
        self._begun = False
        self._running: Generator[dict[str, Tensor]] | None = None
        needed = stream_bytes(section, threads)
        if needed > memory:
            message = (
                f"text: streaming needs {needed:,} bytes, for pools of {self._size:,} windows and "
                f"{units_in_memory(threads)} units in {threads} threads, and may take {memory:,}; "
                "raise the memory, or lower text.stream.shuffle_windows or the number of workers"
            )
            raise BudgetError(message)

    @property
    def tally(self) -> Tally:
        """Documents that were read since the stream was opened."""
        return self._text.tally

    @property
    def samples(self) -> int:
        """Windows per epoch; if the text decides, the first call reads it."""
        if self._samples is None:
            self._samples = self._text.count(self._spare, self._limit)
        return self._samples

    def __len__(self) -> int:
        """Batches per epoch, including a partial last one."""
        return -(-self.samples // self.batch_size)

    def __iter__(self) -> Generator[dict[str, Tensor]]:
        """The batches from the consumer's place, or of the next epoch."""
        self.close()
        if self._begun:
            self.set_epoch(self.epoch + 1)
        self._running = self._batches()
        return self._running

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of this epoch."""
        self.epoch, self._given, self._begun = epoch, 0, False

    def state_dict(self) -> dict[str, Any]:
        """The consumer's place; valid after any batch."""
        return {
            "version": VERSION,
            "identity": self.identity,
            "epoch": self.epoch,
            "samples": self.samples,
            "given": self._given,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after the last batch that was received; the text before it is tokenized again.

        Raises StateError if the state belongs to other text, params or another seed.
        """
        if state.get("version") != VERSION or state.get("identity") != self.identity:
            message = (
                "the saved state belongs to other raw text, another tokenizer, other params or another seed; begin the "
                "epoch anew"
            )
            raise StateError(message)
        self._samples = state["samples"]
        self.set_epoch(state["epoch"])
        if state["given"] < self.samples:
            self._given = state["given"]
        else:
            self.set_epoch(state["epoch"] + 1)

    def close(self) -> None:
        """End the current iteration and its threads."""
        if self._running is not None:
            self._running.close()
            self._running = None

    @property
    def _spare(self) -> int:
        tensors = self.section.tensors
        return tensors.step - 1 if tensors.phase and tensors.across_documents else 0

    def _batches(self) -> Generator[dict[str, Tensor]]:
        phase = int(_words(self._seed, self.epoch, -1, 1)[0] % np.uint64(self._spare + 1))
        waiting: list[npt.NDArray[Any]] = []
        passed = self._given
        with (
            closing(self._text.pools(self.epoch, phase, self._size)) as pools,
            ThreadPoolExecutor(1, thread_name_prefix="text-stream") as maker,
        ):
            ahead = maker.submit(next, pools)
            for number in itertools.count():
                pool, ahead = ahead.result(), maker.submit(next, pools)
                order = np.arange(len(pool))
                if self._shuffle:
                    order = np.argsort(_words(self._seed, self.epoch, number, len(pool)), kind="stable")
                order, passed = order[passed:], max(0, passed - len(pool))
                while len(order):
                    missing = min(self.batch_size, self.samples - self._given) - sum(map(len, waiting))
                    waiting.append(pool[order[:missing]])
                    missing -= len(waiting[-1])
                    order = order[len(waiting[-1]) :]
                    if missing:
                        break
                    tokens, waiting = np.concatenate(waiting), []
                    self._given, self._begun = self._given + len(tokens), True
                    yield self._tensors(tokens)
                    if self._given >= self.samples:
                        return

    def _tensors(self, tokens: npt.NDArray[Any]) -> dict[str, Tensor]:
        # Text readings make no random choices.
        batch = self._reading({"tokens": tokens}, np.zeros(len(tokens), np.uint64))
        if self._device is None:
            return batch
        return {name: tensor.to(self._device, non_blocking=True) for name, tensor in batch.items()}


def _words(seed: int, epoch: int, number: int, count: int) -> npt.NDArray[np.uint64]:
    """Random words for a purpose: raw Philox output, which numpy guarantees never to change."""
    text = f"{seed} {epoch} {number}".encode()
    key = np.frombuffer(hashlib.sha256(text).digest()[:16], "<u8").astype(np.uint64)
    words: npt.NDArray[np.uint64] = np.random.Philox(key=key).random_raw(count)
    return words


def _identity(files: Sequence[RawFile], section: TextSection, tokenizer: Tokenizer, seed: int, *, shuffle: bool) -> str:
    facts = {
        "files": [(file.name, file.bytes) for file in files],
        "params": section.model_dump(mode="json", include={"source", "filters", "splits", "tensors"}),
        "stream": section.stream.model_dump(mode="json"),
        "tokenizer": tokenizer.json,
        "seed": seed,
        "shuffle": shuffle,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
