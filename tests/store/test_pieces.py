"""Rows that pass through pieces become the shards that a table writes by itself, however they are cut."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.errors import DamagedStore
from outofcore.store.encoding_queue import EncodingQueue
from outofcore.store.form import TableForm
from outofcore.store.pieces import read_piece, write_piece, write_shard
from outofcore.store.schema import Field, Layout
from outofcore.store.table import TableWriter

FIELDS = (
    Field(name="board", dtype="uint64", shape=(2,), doc="numbers"),
    Field(name="word", dtype="string", fill="", doc="text"),
    Field(name="zero", dtype="int8", doc="the fill value in all rows"),
)


def columns(first: int, rows: int) -> dict[str, np.ndarray]:
    numbers = np.arange(first, first + rows)
    return {
        "board": np.stack([numbers // 37, numbers % 5], axis=1).astype(np.uint64) * (numbers[:, None] // 64 % 3 > 0),
        "word": np.array(["é" * (number % 4) for number in numbers], object),
        "zero": np.zeros(rows, np.int8),
    }


@settings(deadline=None, max_examples=25)  # every piece is brought to the disk
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.sampled_from(["zstd", "lz4", "none"]))
def test_a_shard_from_pieces_is_the_shard_of_one_writer(counts: list[int], codec: str) -> None:
    form = TableForm(FIELDS, Layout(codec=codec, chunk_rows=16, shard_rows=512))
    with TemporaryDirectory() as folder, ThreadPoolExecutor(1) as encoders:
        alone = TableWriter(Path(folder) / "alone", "t", form.fields, form.layout, EncodingQueue(encoders))
        pieces, first = [], 0
        for number, rows in enumerate(counts):
            alone.append(columns(first, rows))
            pieces.append(Path(folder) / f"{number}.piece")
            write_piece(pieces[-1], form, first, columns(first, rows))
            read = [*read_piece(pieces[-1], form)]
            for name, array in columns(first, rows).items():
                np.testing.assert_array_equal(np.concatenate([part[name] for part in read]), array)
            first += rows
        alone.close()
        found = write_shard(Path(folder) / "found/t", form, 0, pieces)
        assert {f"t/{name}": facts for name, facts in found.items()} == alone.files
        for name in found:
            assert (Path(folder) / "found/t" / name).read_bytes() == (Path(folder) / "alone/t" / name).read_bytes()
        assert not [*Path(folder).rglob("*.partial")]


def test_a_changed_byte_of_a_piece_is_noticed(tmp_path: Path) -> None:
    form = TableForm(FIELDS, Layout(chunk_rows=16, shard_rows=512))
    piece = tmp_path / "a.piece"
    write_piece(piece, form, 100, columns(100, 7))
    content = bytearray(piece.read_bytes())
    content[-8] ^= 1
    piece.write_bytes(content)
    with pytest.raises(DamagedStore):
        write_shard(tmp_path, form, 0, [piece])
