"""Pieces of a shard: encoded rows in transit from the workers that make them to the one that writes the shard.

A piece is a file with consecutive rows of one shard of a table, cut at the shard's chunks. A chunk wholly inside a
piece already has its final bytes; one spread over several pieces is decoded, joined and encoded again with the same
codec when the shard is written. A shard is therefore identical to one from :class:`outofcore.store.table.TableWriter`.

File format: a line with the CRC-32C of the rest of the line and JSON, ``[[rows, [bytes of each field]], ...]`` for each
chunk or part of one, then those bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from outofcore.durable import writing
from outofcore.errors import DamagedStore
from outofcore.store.codecs import ChunkCodec
from outofcore.store.form import TableForm, dtype_of, encode_chunk, filler
from outofcore.store.schema import Columns, Field
from outofcore.store.shards import ShardFile, shard_name

Encoded = list[bytes]
"""A chunk, or a part of one, of every field."""


def write_piece(path: Path, form: TableForm, first: int, columns: Columns) -> None:
    """Write consecutive rows of one shard from row ``first`` of the table; durable before it is visible."""
    size, codecs = form.layout.chunk_rows, form.codecs()
    count = len(columns[form.fields[0].name])
    cuts = [0, *range(size - first % size, count, size), count]
    parts = []
    for start, stop in pairwise(cuts):
        arrays = [columns[field.name][start:stop] for field in form.fields]
        if stop - start == size:
            body = [encode_chunk(*each) for each in zip(form.fields, codecs, arrays, strict=True)]
        else:
            body = [codec.encode(array) for codec, array in zip(codecs, arrays, strict=True)]
        parts.append((stop - start, body))
    write_parts(path, parts)


def write_parts(path: Path, parts: Sequence[tuple[int, Encoded]]) -> None:
    """Write already encoded chunks and parts of chunks, each with its number of rows."""
    table = [[rows, [len(each) for each in body]] for rows, body in parts]
    partial = path.with_name(path.name + ".partial")
    with writing(path):
        partial.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as stream:
            stream.write(_line(json.dumps(table).encode()))
            for _, body in parts:
                stream.writelines(body)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)


def _line(content: bytes) -> bytes:
    return b"%08x %s\n" % (google_crc32c.value(content), content)


def read_parts(path: Path) -> Iterator[tuple[int, Encoded]]:
    """Chunks and parts of chunks of a piece, each with its number of rows; raises DamagedStore."""
    try:
        with path.open("rb") as stream:
            line = stream.readline()
            if line != _line(line[9:-1]):
                message = f"{path}: the table of a piece has changed"
                raise DamagedStore(message)
            for rows, lengths in json.loads(line[9:]):
                yield rows, [stream.read(length) for length in lengths]
    except FileNotFoundError as error:
        message = f"{path}: the piece is gone"
        raise DamagedStore(message) from error


def read_piece(path: Path, form: TableForm) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """The decoded rows of a piece, a chunk or a part of one at a time; raises DamagedStore."""
    codecs = form.codecs()
    for rows, body in read_parts(path):
        yield {
            field.name: _decoded(field, codec, rows, each)
            for field, codec, each in zip(form.fields, codecs, body, strict=True)
        }


def write_shard(folder: Path, form: TableForm, number: int, pieces: Sequence[Path]) -> dict[str, tuple[int, str]]:
    """Write one shard of every field from its pieces, in row order; raises DamagedStore.

    If the pieces end before the shard does, so does the table. Returns size and SHA-256 by path relative to the folder;
    a shard of nothing but the fill value has no file.
    """
    fields, size, codecs = form.fields, form.layout.chunk_rows, form.codecs()
    names = [f"{field.name}/{shard_name(number, 1 + len(field.shape))}" for field in fields]
    shards = [ShardFile(folder / name, form.layout.shard_rows // size) for name in names]
    waiting: list[list[npt.NDArray[Any]]] = []
    held = 0

    def append(body: Encoded) -> None:
        for shard, each in zip(shards, body, strict=True):
            shard.append(each)

    def append_waiting() -> None:
        joined = [np.concatenate(parts) for parts in zip(*waiting, strict=True)]
        append([encode_chunk(*each) for each in zip(fields, codecs, joined, strict=True)])
        waiting.clear()

    try:
        for piece in pieces:
            for rows, body in read_parts(piece):
                if rows == size:
                    for each in body:
                        if each:
                            ChunkCodec.check(each)
                    append(body)
                    continue
                decoded = [_decoded(*each[:2], rows, each[2]) for each in zip(fields, codecs, body, strict=True)]
                waiting.append(decoded)
                held += rows
                if held == size:
                    append_waiting()
                    held = 0
        if held:
            waiting.append([filler(field, size - held) for field in fields])
            append_waiting()
        finished = {name: shard.finish() for name, shard in zip(names, shards, strict=True)}
    finally:
        for shard in shards:
            shard.close()
    return {name: facts for name, facts in finished.items() if facts}


def _decoded(field: Field, codec: ChunkCodec, rows: int, encoded: bytes) -> npt.NDArray[Any]:
    if not encoded:
        return filler(field, rows)
    out = np.empty((rows, *field.shape), dtype_of(field))
    codec.decode(encoded, out)
    return out
