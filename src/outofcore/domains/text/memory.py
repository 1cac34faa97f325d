"""Estimate the memory of text training, by component."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import torch

from outofcore.domains.text.cross_entropy import CHUNK_SCORES
from outofcore.domains.text.network import Network, Size, model_size
from outofcore.domains.text.params import TensorSection, TextSection, TextTrainSection
from outofcore.domains.text.stream.stream import stream_bytes

# 8-bit optimizer states: blocks of this many values share a scale; smaller tensors keep 32 bits.
_BLOCK = 256
_SMALL_TENSOR = 4096
# A loader reads windows in blocks of this many chunks, and holds two pools of blocks.
_BLOCK_CHUNKS = 4
_POOLS = 2

Residency = Literal["loaded", "streamed", "raw"]


@dataclass(frozen=True, kw_only=True)
class TrainingMemory:
    """Bytes by component; the interpreter and its libraries add some 400 MB with torch."""

    data: int  # loaders or streams of the train and val splits
    model: int
    gradients: int
    optimizer: int  # its states
    activations: int  # kept for the backward pass, and temporaries of both passes

    @property
    def total(self) -> int:
        """All components."""
        return sum(getattr(self, part.name) for part in fields(self))


def training_memory(
    section: TextSection, vocabulary: int, *, residency: Residency, tokens: int, micro_batch: int, threads: int = 1
) -> TrainingMemory:
    """Memory needed by training.

    ``residency`` is ``loaded`` (whole training split in memory), ``streamed`` (pools read from the store) or ``raw``
    (tokenized on the fly by ``threads``). ``tokens`` are those of the training split; those of validation follow from
    ``section.splits``. ``micro_batch`` is in windows, 0 for the whole batch.
    """
    train, tensors = section.train, section.tensors
    size = model_size(section, vocabulary)
    windows = min(micro_batch or train.batch_size, train.batch_size)
    held = _held_bytes(section, residency, tokens, vocabulary, threads)
    to_train = 1 - section.splits.val - section.splits.test
    if section.splits.val and to_train:
        held += _held_bytes(section, residency, round(tokens * section.splits.val / to_train), vocabulary, threads)
    return TrainingMemory(
        data=held,
        model=4 * size.parameters,
        gradients=4 * size.parameters,
        optimizer=_optimizer_bytes(size, train),
        activations=kept_bytes(size, train, tensors, windows) + _passing_bytes(size, windows * tensors.seq_len),
    )


def _held_bytes(section: TextSection, residency: Residency, tokens: int, vocabulary: int, threads: int) -> int:
    """Bytes held by the loader or stream of a split with this many tokens."""
    train, store = section.train, section.store
    item = 2 if vocabulary <= 2**16 else 4
    if residency == "raw":
        return stream_bytes(section, item, train.batch_size, threads)
    most = _POOLS * train.pool_blocks * _BLOCK_CHUNKS * store.chunk_rows if residency == "streamed" else tokens
    return min(tokens, most) * item + 3 * train.batch_size * (section.tensors.seq_len + 1) * 8


def kept_bytes(size: Size, train: TextTrainSection, tensors: TensorSection, windows: int) -> int:
    """Bytes that the forward pass keeps for the backward pass.

    In units of a token's vector, a block keeps its two inputs, of 4 bytes, and the inputs and outputs of its matrices:
    14 of 4 bytes, or of 2 in mixed precision, which also keeps its matrices in 2 bytes.
    """
    mixed = train.precision == "bf16-mixed"
    item = 2 if mixed else 4
    statistics = 16 + 4 * size.heads
    block = size.width * (2 * 4 + 14 * item) + statistics
    places = windows * tensors.seq_len
    mask = windows * tensors.seq_len**2 if tensors.reset_at_documents else 0
    kept = places * (size.layers * block + 2 * 4 * size.width + 8) + mask * (1 + item * size.layers)
    weights = item * 12 * size.width**2 * size.layers if mixed else 0
    return kept + weights + 4 * size.vocabulary * size.width


def _passing_bytes(size: Size, places: int) -> int:
    """Temporaries of both passes: scores of a chunk of tokens, and gradients inside one block."""
    scores = 2 * 4 * min(places * size.vocabulary, CHUNK_SCORES)
    return scores + 4 * 10 * size.width * places + 4 * size.vocabulary * size.width


def _optimizer_bytes(size: Size, train: TextTrainSection) -> int:
    """Two states per parameter: of 4 bytes each, or of 1 with a scale per 256 values of a tensor."""
    if train.optimizer == "adamw":
        return 8 * size.parameters
    with torch.device("meta"):
        tensors = [parameter.numel() for parameter in Network(size).parameters()]
    return sum(8 * count if count < _SMALL_TENSOR else 2 * count + 8 * -(-count // _BLOCK) for count in tensors)
