"""Files of token ids that other programs wrote, read in place as an unsealed store of text.

nanoGPT (``.bin``: ids alone), llm.c and modded-nanogpt (``.bin``: 256 words of header, then ids), lit-gpt (``.bin``: 24
bytes of header), Megatron-LM (``.bin`` and ``.idx``), datatrove (``.ds`` and ``.ds.index``) and NumPy (``.npy``). Ids
are little-endian. A file without a header is read as flat ids only if it does not begin like one of another kind.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import DamagedStore, ParamsError, StoreError
from outofcore.ndarrays import Ints
from outofcore.store.array import Array
from outofcore.store.connection import is_address, shown
from outofcore.store.unsealed import Unsealed, split_rows
from outofcore.system.descriptors import Descriptor

CHUNK_ROWS = 65_536
SUFFIXES = (".bin", ".idx", ".ds", ".npy")
_DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}  # by the codes of Megatron-LM and lit-gpt
_MEGATRON = "<9sQBQQ"  # magic, version, code of the dtype, sequences, documents and one more
# dev/data/data_common.py of llm.c: GPT-2 and Llama 3. packed_dataset.py of lit-gpt.
_HEADERS = {
    struct.pack("<2I", 20_240_520, 1): ("<u2", slice(8, 12), 1024),
    struct.pack("<2I", 20_240_801, 7): ("<u4", slice(8, 12), 1024),
    **{struct.pack("<7sQB", b"LITPKDS", 1, code): (dtype, slice(16, 24), 24) for code, dtype in _DTYPES.items()},
}
"""How a file begins whose ids follow a header: their dtype, where their number is, and the bytes of the header."""
_OTHERS = {
    (20_240_522).to_bytes(4, "little"): "llm.c's examples of an evaluation, which are not one run of tokens",
    b"LITPKDS": "lit-gpt's, of another version or dtype",
    b"MMIDIDX": "an index of Megatron-LM",
    b"TNTIDX": "an index of an early Megatron-LM",
    b"\x93NUMPY": "a .npy",
    b"PK\x03\x04": "a zip",
    b"PAR1": "Parquet",
    b"\x28\xb5\x2f\xfd": "Zstandard",
}


@dataclass(frozen=True)
class Ids:
    """Where the ids of a file are."""

    dtype: np.dtype[Any]
    offset: int  # bytes before the first
    count: int
    ends: Ints | None = None  # of the documents, in tokens, ascending; None if no file tells


class TokenArray(Array):
    """The ids of a file, from ``first`` on."""

    def __init__(self, path: Path, file: Descriptor, ids: Ids, rows: range, vocabulary: int | None) -> None:
        super().__init__(path, "tokens", (len(rows),), ids.dtype, CHUNK_ROWS, CHUNK_ROWS)
        self._file, self._begin = file, ids.offset + rows.start * ids.dtype.itemsize
        self._first, self._vocabulary = rows.start, vocabulary

    def chunk(self, number: int, out: npt.NDArray[Any]) -> int:
        first = number * self.chunk_rows * self.row_bytes
        length = min(self.chunk_rows * self.row_bytes, len(self) * self.row_bytes - first)
        content = self._file.read(self._begin + first, length)
        if len(content) < length:
            raise DamagedStore(f"{self.root}: is shorter than when it was opened; open it again")
        count = length // self.row_bytes
        out[:count], out[count:] = np.frombuffer(content, self.dtype), 0
        if self._vocabulary is not None and (wrong := (out[:count] >= self._vocabulary) | (out[:count] < 0)).any():
            token = int(np.argmax(wrong))
            raise DamagedStore(
                f"{self.root}: token {self._first + number * self.chunk_rows + token:,} has the id {int(out[token])}, "
                f"expected one below vocab_size={self._vocabulary}: is the dtype {self.dtype.name}, and is it this "
                "tokenizer's?"
            )
        return length


class TokenFile(Unsealed):
    """A file of token ids; made by :func:`open_tokens`."""

    def __init__(
        self,
        path: Path,
        ids: Ids,
        splits: Mapping[str, range],
        end: int | None,
        begin: int | None,
        vocabulary: int | None,
        reopened: Callable[[], Unsealed],
    ) -> None:
        separator = begin if end is None else end
        attributes = {"row": "token", "sequence": "document", "dtype": ids.dtype.name, "end_id": separator}
        attributes |= {"indexed": ids.ends is not None}
        facts = [ids.dtype.str, ids.offset, ids.count, end, *([] if begin is None else [begin])]
        super().__init__(path, "text", attributes, splits, CHUNK_ROWS, facts, os.path.realpath(path), reopened)
        self._file, self._ids, self._vocabulary = Descriptor(path), ids, vocabulary
        self._separator, self._ends = separator, end is not None

    def fields(self, rows: range) -> dict[str, TokenArray]:
        return {"tokens": TokenArray(Path(self.root), self._file, self._ids, rows, self._vocabulary)}

    def ends(self, rows: range) -> Ints:
        """By the index, or the id that ends or begins documents; none without either."""
        if self._ids.ends is not None or self._separator is None:
            return np.empty(0, np.int64) if self._ids.ends is None else self._ids.ends
        tokens = self.fields(rows)["tokens"]
        separators = [
            np.flatnonzero(tokens.read(start, min(start + CHUNK_ROWS, len(rows))) == self._separator) + start
            for start in range(0, len(rows), CHUNK_ROWS)
        ]
        return np.concatenate([np.empty(0, np.int64), *separators]) + rows.start + int(self._ends)

    def note(self, split: str, fields: Any) -> str:
        del split, fields
        note = f"{self.root}: not sealed: changes are not noticed"
        if self._ends and self._ids.ends is None and self.fields(range(1))["tokens"].read()[0] == self._separator:
            note += (
                f"; its first token is {self._separator}: if that begins documents, open it with "
                f"open_tokens(..., begin_of_document={self._separator})"
            )
        return note


def open_tokens(
    path: str | Path,
    dtype: str | None = None,
    end_of_document: int | None = None,
    rows: tuple[int, int] | None = None,
    splits: Mapping[str, float] | None = None,
    vocab_size: int | None = None,
    begin_of_document: int | None = None,
) -> TokenFile:
    """Open a file of token ids that another program wrote, to read it in place as a store of text.

    ::

        tokens = outofcore.open_tokens("train.bin", "uint16", end_of_document=50256)
        batches = outofcore.loader(tokens, batch_size=64, tensors=outofcore.reading(tokens, seq_len=1024))

    Parameters
    ----------
    path
        A ``.bin`` of nanoGPT, llm.c, lit-gpt or Megatron-LM (with its ``.idx``), a ``.ds`` of datatrove (with its
        ``.ds.index``), or a flat ``.npy``.
    dtype
        Of the ids, such as ``"uint16"``; needed where no header or index tells it.
    end_of_document
        The id that ends each document, as in files of nanoGPT; None if none does, or documents do not matter.
    rows
        First token and end of what is read as the split ``train``; None for all.
    splits
        Shares of further splits, such as ``{"val": 0.1}``: contiguous tokens at the end. Splits begin at whole chunks
        of 65,536 where each gets at least ten by its share, else at any token.
    vocab_size
        Number of ids of the tokenizer: an id that is not below it is an error; None if it is not known.
    begin_of_document
        The id that begins each document, as in files of llm.c, modded-nanogpt and llama2.c; of documents that also
        have an end, that one separates them.

    Raises
    ------
    StoreError
        If there is no such file, or it is of no such kind; DamagedStore, also later, at an id beyond ``vocab_size``.
    ParamsError
        If the dtype is missing or another one, or rows or splits do not fit.
    """
    try:
        given = None if dtype is None else np.dtype(dtype)
    except TypeError:
        given = np.dtype(object)
    if given is not None and (given.kind not in "iu" or not given.isnative):
        raise ParamsError(f"dtype: expected one of integers, such as uint16, got {dtype!r}")
    if is_address(path):
        raise StoreError(f"{shown(path)}: files of token ids are read from folders of this machine; copy it here")
    place = Path(path)
    if place.suffix == ".idx":
        place = place.with_suffix(".bin")
    try:
        ids = _ids_of(place, given)
    except FileNotFoundError as error:
        raise StoreError(f"{error.filename}: does not exist") from error
    except (OSError, ValueError, EOFError, struct.error) as error:
        raise StoreError(f"{place}: no file of token ids can be read there: {error}") from error
    if given not in (None, ids.dtype):
        raise ParamsError(f"dtype: {place} holds {ids.dtype.name} by its header or index, got {dtype!r}")
    for name, number in (("end_of_document", end_of_document), ("begin_of_document", begin_of_document)):
        if number is not None and not 0 <= number <= np.iinfo(ids.dtype).max:
            raise ParamsError(f"{name}: expected an id of {ids.dtype.name} as in {place}, got {number}")
    if not ids.count:
        raise StoreError(f"{place}: has no tokens")
    parts = split_rows(place, ids.count, CHUNK_ROWS, rows, splits)
    reopened = partial(open_tokens, path, dtype, end_of_document, rows, splits, vocab_size, begin_of_document)
    tokens = TokenFile(place, ids, parts, end_of_document, begin_of_document, vocab_size, reopened)
    if vocab_size is not None:
        tokens.fields(range(ids.count))["tokens"].read(0, min(ids.count, CHUNK_ROWS))
    return tokens


def _ids_of(path: Path, given: np.dtype[Any] | None) -> Ids:
    size = path.stat().st_size
    if path.is_fifo():
        raise ValueError("expected a file, got a pipe")
    if path.suffix == ".npy":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 1 or array.dtype.kind not in "iu" or not array.dtype.isnative:
            raise ValueError(f"expected little-endian integers of one axis, got {array.dtype.str} {array.shape}")
        return Ids(array.dtype, array.offset, len(array))
    if path.suffix == ".ds":
        ends = np.fromfile(f"{path}.index", "<u8").astype(np.int64)
        wide = len(ends) > 0 and size >= 4 * ends[-1]
        return _whole(path, size, 0, np.dtype("<u4" if wide else "<u2"), ends)
    if path.with_suffix(".idx").exists():
        return _megatron(path, size)
    with path.open("rb") as file:
        head = file.read(1024)
    for magic, (dtype, number, header_bytes) in _HEADERS.items():
        if head.startswith(magic):
            ids, count = _whole(path, size, header_bytes, np.dtype(dtype)), int.from_bytes(head[number], "little")
            if ids.count != count:
                raise ValueError(f"its header says {count:,} tokens, there are {ids.count:,}")
            return ids
    _refuse_headers(head, size)
    if given is None:
        raise ParamsError(
            f"dtype: {path} does not state that of its ids: give it, such as dtype='uint16', or --dtype uint16 to "
            "'outofcore info'"
        )
    return _whole(path, size, 0, given)


def _refuse_headers(head: bytes, size: int) -> None:
    """Raise ValueError if a file does not begin with ids, as far as that can be seen."""
    for magic, kind in _OTHERS.items():
        if head.startswith(magic):
            raise ValueError(f"it begins with {magic!r}: {kind}")
    words = np.frombuffer(head[: len(head) // 4 * 4], "<i4")
    if len(words) < 256 or words[16:].any() or not words[0]:
        return
    follow = {(size - 1024) // width for width in (2, 4)}
    if 20_200_101 <= words[0] <= 20_991_231 or follow & set(words[1:8].tolist()):
        first = ", ".join(map(str, words[: int(np.flatnonzero(words)[-1]) + 1].tolist()))
        raise ValueError(f"it begins with a header of 256 words that is not known: {first}, then zeros")


def _whole(path: Path, size: int, offset: int, dtype: np.dtype[Any], ends: Ints | None = None) -> Ids:
    """All ids from an offset to the end of a file; raises ValueError if a part of one is left, or documents differ."""
    count, rest = divmod(size - offset, dtype.itemsize)
    last = count if ends is None or not len(ends) else int(ends[-1])
    if rest or last != count or (ends is not None and (np.diff(ends, prepend=0) < 0).any()):
        raise ValueError(
            f"{size - offset:,} bytes are not {last:,} ids of {dtype.name}: {path.name} was cut or is of another"
        )
    return Ids(dtype, offset, count, ends)


def _megatron(path: Path, size: int) -> Ids:
    """By the index: lengths and places of sequences, and the first sequence of each document."""
    index = path.with_suffix(".idx").read_bytes()
    magic, version, code, sequences, documents = struct.unpack_from(_MEGATRON, index)
    if (magic, version) != (b"MMIDIDX\0\0", 1) or code not in _DTYPES:
        raise ValueError(f"{path.with_suffix('.idx').name} is no index of Megatron-LM, version 1, for integers")
    start = struct.calcsize(_MEGATRON)
    lengths = np.frombuffer(index, "<i4", sequences, start).astype(np.int64)
    places = np.frombuffer(index, "<i8", sequences, start + 4 * sequences)
    firsts = np.frombuffer(index, "<i8", documents, start + 12 * sequences)
    dtype, ends = np.dtype(_DTYPES[code]), np.concatenate(([0], np.cumsum(lengths)))
    if (places != ends[:-1] * dtype.itemsize).any() or (firsts < 0).any() or (firsts > sequences).any():
        raise ValueError("its index does not name sequences that follow each other")
    return _whole(path, size, 0, dtype, ends[firsts[1:]])
