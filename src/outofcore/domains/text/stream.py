"""Batches directly from raw text, in the same form and with the same guarantees as from a store."""

from __future__ import annotations

import hashlib
import json
import reprlib
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from outofcore.domains.text.documents.hub import HubRecords, RecordsFile
from outofcore.domains.text.documents.reading import BLOCK_BYTES
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.schema import attributes
from outofcore.domains.text.tensors import make_reading
from outofcore.domains.text.tokens.tokenizer import Tokenizer, load_tokenizer
from outofcore.domains.text.windows import Pool, RawText, Tally, Tokens, units_in_memory
from outofcore.errors import BudgetError, ParamsError, StateError
from outofcore.order.permutation import permutation
from outofcore.order.windows import Window
from outofcore.raw.files import RawFile
from outofcore.system.device import DeviceStream

VERSION = 3  # of the order of windows
_POOLS = 18  # purpose of a key, as those of a loader's order
# Memory of a unit being tokenized: its bytes, twice, and its ids of four and two bytes.
UNIT_BYTES = 12 << 20
# Memory of a thread's engine, without its cache.
ENGINE_BYTES = 32 << 20


def stream_bytes(section: TextSection, threads: int) -> int:
    """Most bytes held by a stream that tokenizes this many units at a time, not counting words cached by the engine."""
    length, item = section.tensors.seq_len + 1, np.dtype(load_tokenizer(section).dtype).itemsize
    # Tokens of a pool, whose last unit may be of a token per byte.
    tokens = section.stream.shuffle_windows * section.tensors.step + length
    tokens += max(BLOCK_BYTES, section.source.longest_document)
    # One pool is being consumed; the next is gathered, then joined, and so held twice. Places of windows are of both,
    # and once more in the order of one.
    pools = 3 * tokens * item + 4 * (tokens // section.tensors.step + 1) * 8
    # The batch being made and the one before it, of eight bytes an id, with positions and segments if they are reset.
    tensors = 4 if section.tensors.reset_at_documents else 2
    batches = 2 * tensors * section.train.batch_size * length * 8
    return pools + batches + units_in_memory(threads) * UNIT_BYTES + threads * ENGINE_BYTES


class TextStream(IterableDataset[dict[str, Tensor]]):
    """Iterates over the batches of an epoch, tokenizing in the background; made by :func:`outofcore.stream`.

    The text is read sequentially, file after file; pools of units of text, with about ``stream.shuffle_windows``
    windows or more, are shuffled while the next is made. Unshuffled, batches are those of a loader of a store of the
    text. An iteration is an epoch, the first ``epoch`` and each later one the next if the previous one delivered a
    batch: ``stream.max_examples`` windows, for which the text restarts if it is shorter, or the whole text; of the
    split val at most ``train.val_examples``. The order depends only on text, params, split, seed and epoch.

    Only one iteration is active at a time: a second one ends the first, which raises an error when it is continued.
    Leaving a ``with`` block closes the stream. ``DataLoader(stream, batch_size=None)`` passes its batches through. It
    can be pickled and copied unless it is being read.

    Attributes
    ----------
    epoch
        The epoch of the current iteration, or of the next one if none has begun.
    tally
        Counts the documents read since the stream was made, each once: ``tally.figures()``.

    Raises
    ------
    BudgetError
        If ``memory`` bytes do not suffice for the pools and the units in flight.
    """

    def __init__(
        self,
        files: Sequence[RawFile],
        section: TextSection,
        split: str,
        *,
        shuffle: bool,
        memory: int,
        threads: int,
        device: torch.device | None,
    ) -> None:
        self.epoch = 0
        tokenizer = load_tokenizer(section)
        self._section = section
        self._batch_size = section.train.batch_size
        self._reading = make_reading(attributes(tokenizer), section)
        window = Window(**self._reading.window or {})
        self._text = RawText(tuple(files), section, tokenizer, window, split, shuffle, threads)
        self._copies = DeviceStream(device)
        limits = {"train": section.stream.max_examples, "val": section.train.val_examples}
        self._limit = limits.get(split)
        self._samples = self._limit if split == "train" else None  # of an epoch, once it is known
        self._repeat = self._samples is not None
        self._identity = _identity(files, section, tokenizer, split, shuffle=shuffle)
        self._given = 0  # windows of the epoch that the consumer has received
        self._read = ""  # digest of the pools that they are of
        self._begun = False
        self._running: Generator[dict[str, Tensor]] | None = None  # the iteration that may deliver batches
        needed = stream_bytes(section, threads)
        if needed > memory:
            raise BudgetError(
                f"text: streaming needs {needed:,} bytes, for pools of {section.stream.shuffle_windows:,} windows and "
                f"{units_in_memory(threads)} units in {threads} threads, and may take {memory:,}; "
                "raise the memory, or lower stream.shuffle_windows or the number of threads"
            )

    def __repr__(self) -> str:
        window = self._section.tensors.seq_len
        return f"TextStream({self._text.split}: batches of {self._batch_size:,} windows of {window:,} tokens)"

    def __getstate__(self) -> dict[str, Any]:
        if self._running is not None:
            raise ParamsError(
                "a stream that is being read cannot be pickled or copied: do that before, or call stream(...) where "
                "batches are needed, and continue there with load_state_dict(state)"
            )
        return self.__dict__.copy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def tally(self) -> Tally:
        """Documents that were read since the stream was made."""
        return self._text.tally

    @property
    def samples(self) -> int:
        """Windows per epoch; if the text decides, and was not read to its end yet, the call reads it."""
        if self._samples is None:
            self._samples = self._text.count(self._limit)
        return self._samples

    def __len__(self) -> int:
        """Batches per epoch, including a partial last one."""
        return -(-self.samples // self._batch_size)

    def __iter__(self) -> Generator[dict[str, Tensor]]:
        """The rest of the current epoch's batches, or the next epoch's.

        Raises
        ------
        ParamsError
            In a ``DataLoader`` with worker processes; when continued after a later iteration has
            begun.
        """
        if get_worker_info() is not None:  # each of which would read all of it
            raise ParamsError(
                "a stream reads with threads of its own: use it directly, or DataLoader(..., num_workers=0)"
            )
        self.close()
        if self._begun:
            self.set_epoch(self.epoch + 1)
        self._running = self._batches()
        return self._iterate(self._running)

    @property
    def step(self) -> int:
        """The batch that was given last, counted from epoch 0 on."""
        return self.epoch * len(self) - (-self._given // self._batch_size)

    @property
    def epoch_steps(self) -> int:
        """As many as batches."""
        return len(self)

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of this epoch."""
        self.epoch, self._given, self._read, self._begun = epoch, 0, "", False

    def state_dict(self) -> dict[str, Any]:
        """The consumer's place; valid after any batch."""
        return {
            "version": VERSION,
            "identity": self._identity,
            "epoch": self.epoch,
            "samples": self._samples,
            "given": self._given,
            "read": self._read,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after the last batch that was received; the text before it is tokenized again.

        That text is compared with what the state has read: the next iteration raises StateError if it is another.

        Raises
        ------
        StateError
            If the state belongs to files of other names or sizes, other params, another split or seed.
        """
        if not isinstance(state, Mapping) or (missing := sorted(self.state_dict().keys() - state.keys())):
            lacks = f"one without {', '.join(missing)}" if isinstance(state, Mapping) else reprlib.repr(state)
            raise StateError(f"expected a stream's state, got {lacks}")
        if state["version"] != VERSION:
            raise StateError(
                f"the saved state is of version {state['version']} of the order of a stream, expected version "
                f"{VERSION}: continue with the release that saved it, or begin without it"
            )
        if state["identity"] != self._identity:
            raise StateError(
                "the saved state belongs to other raw text, another tokenizer, other params, another split or another "
                "seed; begin the epoch anew"
            )
        self._samples = state["samples"]
        over = self._samples is not None and state["given"] >= self._samples
        self.set_epoch(state["epoch"] + over)
        self._given, self._read = (0, "") if over else (state["given"], state["read"])

    def close(self) -> None:
        """End the current iteration and its threads."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _iterate(self, running: Generator[dict[str, Tensor]]) -> Generator[dict[str, Tensor]]:
        try:
            while self._running is running:
                batch = next(running, None)
                if batch is None:
                    return
                yield batch
                del batch  # a batch that the consumer has released must not stay alive while the next is made
            if self._running is not None:  # else the stream was closed
                raise ParamsError(
                    "this iteration ended when another one over the same stream began: "
                    "make a second stream to iterate twice at a time"
                )
        finally:
            if self._running is running:
                self.close()

    def _batches(self) -> Generator[dict[str, Tensor]]:
        stopped = threading.Event()
        pools = self._text.pools(self.epoch, repeat=self._repeat, stopped=stopped.is_set)
        # Ends in reverse: the pool that is being made is abandoned, its thread joined, its source closed.
        with closing(pools), ThreadPoolExecutor(1, thread_name_prefix="text-stream") as maker, ExitStack() as at_end:
            at_end.callback(stopped.set)
            batches = self._windows(_ahead(pools, maker))
            following = next(batches, None)
            while following is not None:
                tokens, read = following
                batch, given = self._tensors(tokens), self._given + len(tokens)
                following = next(batches, None)
                if following is None:
                    self._samples = given
                # No calls from here on, so that no Ctrl-C can come between counting a batch and yielding it.
                self._given, self._read, self._begun = given, read, True
                yield batch
                del batch

    def _windows(self, pools: Iterator[Pool]) -> Iterator[tuple[Tokens, str]]:
        """The tokens of batches (windows, length) from the consumer's place to the end of the epoch.

        With the digest of all pools up to there. Raises StateError where that of the consumer's place differs.
        """
        length, passed, digest = self._text.window.length, self._given, hashlib.blake2b(digest_size=16)
        left = (self._samples or self._limit or sys.maxsize) - passed
        batch: Tokens = np.empty((0, length), np.uint16)
        for number, (tokens, firsts) in enumerate(pools):
            digest.update(tokens.data)
            if 0 < passed <= len(firsts) and digest.hexdigest() != self._read:
                break
            if self._text.shuffle:
                firsts = firsts[permutation(len(firsts), self._section.train.seed, self.epoch, _POOLS, number)]
            firsts, passed = firsts[passed:], max(0, passed - len(firsts))
            if not len(firsts):
                continue
            windows = np.lib.stride_tricks.sliding_window_view(tokens, length)
            while len(firsts):
                lacking = min(self._batch_size, left) - len(batch)
                batch, firsts = np.concatenate([batch, windows[firsts[:lacking]]]), firsts[lacking:]
                if len(batch) == min(self._batch_size, left):
                    yield batch, digest.hexdigest()
                    left -= len(batch)
                    batch = batch[:0]
                    if not left:
                        return
        if passed:
            raise StateError(
                f"the saved state has read other text than {self._section.raw} has now, in files of the same names and "
                "sizes; begin the epoch anew"
            )
        if len(batch):
            yield batch, digest.hexdigest()

    def _tensors(self, tokens: Tokens) -> dict[str, Tensor]:
        # Text readings make no random choices.
        batch = self._reading({"tokens": tokens}, np.zeros(len(tokens), np.uint64))
        with self._copies.queue():
            batch = self._copies.send(batch)
            marked = self._copies.finish([batch])
        return self._copies.receive(batch, marked)


def _ahead(pools: Iterator[Pool], maker: ThreadPoolExecutor) -> Iterator[Pool]:
    """The pools, of which the next is made while one is in use."""
    following = maker.submit(next, pools, None)
    while (pool := following.result()) is not None:
        following = maker.submit(next, pools, None)
        yield pool


def _identity(
    files: Sequence[RawFile], section: TextSection, tokenizer: Tokenizer, split: str, *, shuffle: bool
) -> str:
    facts = {
        "files": [(file.name, file.bytes) for file in files],
        "datasets": [
            file.records.dataset.model_dump(mode="json")
            for file in files
            if isinstance(file, RecordsFile) and isinstance(file.records, HubRecords)
        ],
        "params": section.model_dump(mode="json", include={"source", "filters", "splits", "tensors"}),
        "stream": section.stream.model_dump(mode="json"),
        "tokenizer": tokenizer.json,
        "split": split,
        "seed": section.train.seed,
        "shuffle": shuffle,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
