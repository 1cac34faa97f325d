"""Tables of Parquet and Arrow, against ``tokenizers`` on their values."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outofcore.domains.text.documents.parquet import values
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.errors import RawInputError
from outofcore.raw.files import Member
from tests.domains.text.conftest import PROSE, tokens_of


def test_parquet(convert, tokenizer: Tokenizer, tmp_path: Path):
    texts = [f"{number} {PROSE}" for number in range(200)]
    values = [*texts, None, "", "\ud800".encode("utf-8", "surrogatepass")]
    kinds = (
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.uint8(), pa.large_string()), pa.json_()),
    )
    for number, kind in enumerate(kinds):
        binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
        column = values if binary else [*texts, None, "", None]
        table = pa.table({"other": list(range(203)), "body": pa.array(column, kind)})
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=90)
        found = convert(path, source={"text_column": "body"})
        assert found.documents == tokens_of(texts, tokenizer)
        assert [column["offset"] for column in found.columns] == list(range(200))
        last = "invalid_utf8" if binary else "no_text"
        assert [(reject.reason, reject.offset) for _, reject in found.rejects] == [
            (reason, number) for reason, number in (("no_text", 200), ("too_short", 201), (last, 202))
        ] or sorted(found.reasons) == sorted(["no_text", "too_short", last])
    found = convert(tmp_path / "0.parquet")
    assert found.reasons == ["no_column"]
    assert "expected a column 'text' of strings; there are other (int64), body (string)" in found.rejects[0][1].detail
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "0.parquet", "a.parquet")
    with pytest.raises(RawInputError, match="so not from an archive"):
        convert(tmp_path / "a.tar", source={"text_column": "body"})
    (tmp_path / "bad.parquet").write_bytes(b"nothing of the kind")
    found = convert(tmp_path / "bad.parquet")
    assert found.reasons == ["damaged_file"]
    assert "expected a Parquet file" in found.rejects[0][1].detail


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.large_string())])
def test_a_column_inside_of_another(kind: pa.DataType, convert, tokenizer: Tokenizer, tmp_path: Path):
    texts = [f"{number} {PROSE}" for number in range(90)]
    inner = pa.StructArray.from_arrays([pa.array([*texts, None, "gone"], kind)], ["content"], mask=_last_of(92))
    table = pa.table({"id": range(92), "message": inner})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=40)
    with (tmp_path / "b.arrow").open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:  # save_to_disk
        stream.write_table(table, max_chunksize=31)
    records = [{"id": row, "message": {"content": text}} for row, text in enumerate([*texts, None])]
    lines = [json.dumps(record) for record in (*records, {"message": "gone"})]
    (tmp_path / "c.jsonl").write_text("".join(line + "\n" for line in lines))
    for name in ("a.parquet", "b.arrow", "c.jsonl"):
        found = convert(tmp_path / name, source={"text_column": "message.content"})
        assert found.documents == tokens_of(texts, tokenizer), name
        assert found.reasons == ["no_text", "no_text"]
        assert convert(tmp_path / name, source={"text_column": "message.other"}).documents == []
    (tmp_path / "b.arrow").write_bytes((tmp_path / "b.arrow").read_bytes()[:-5000])
    found = convert(tmp_path / "b.arrow", source={"text_column": "message.content"})
    assert found.reasons == ["damaged_file"]
    (tmp_path / "d.jsonl").write_text('{"message.content": "its own key", "message": {"content": "not this"}}')
    found = convert(tmp_path / "d.jsonl", source={"text_column": "message.content"})
    assert found.documents == tokens_of(["its own key"], tokenizer)


def _last_of(count: int) -> pa.Array:
    return pa.array([row == count - 1 for row in range(count)])


def test_a_table_without_the_column_costs_no_other_and_the_first_of_two_is_read(
    convert, tokenizer: Tokenizer, tmp_path: Path
):
    pq.write_table(pa.table({"text": [PROSE]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"other": [PROSE]}), tmp_path / "b.parquet")
    two = pa.Table.from_arrays([pa.array([f"2 {PROSE}"]), pa.array(["not this"])], ["text", "text"])
    pq.write_table(two, tmp_path / "c.parquet")
    found = convert(tmp_path)
    assert found.documents == tokens_of([PROSE, f"2 {PROSE}"], tokenizer)
    assert found.reasons == ["no_column"]


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}])
def test_repeated_texts_take_no_more_memory_than_others(tmp_path: Path, options: dict[str, Any]):
    texts = ["a b" * 100_000 + f" {number}" for number in range(3)]
    count = 600
    pq.write_table(pa.table({"text": [texts[row % 3] for row in range(count)]}), tmp_path / "a.parquet", **options)
    assert (tmp_path / "a.parquet").stat().st_size < 2**20
    before, row = pa.total_allocated_bytes(), 0
    with (tmp_path / "a.parquet").open("rb") as stream:
        for first, content, lengths in values(Member("a", stream, stream.tell), "text"):
            assert first == row
            assert content == "".join(texts[number % 3] for number in range(row, row + len(lengths))).encode()
            row += len(lengths)
            assert pa.total_allocated_bytes() - before < 100 * 2**20
    assert row == count


@pytest.mark.parametrize("stated", [True, False], ids=["a column of a dictionary", "a column of texts"])
def test_long_texts_that_a_dictionary_repeats_take_little_memory(tmp_path: Path, stated: bool):
    texts = ["a b" * 700_000 + f" {number}" for number in range(3)]
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 30), pa.array(texts))
    table = pa.table({"text": column if stated else column.dictionary_decode()})
    pq.write_table(table, tmp_path / "a.parquet", dictionary_pagesize_limit=1 << 24)
    before, row = pa.total_allocated_bytes(), 0
    with (tmp_path / "a.parquet").open("rb") as stream:
        for first, content, lengths in values(Member("a.parquet", stream, stream.tell), "text"):
            assert (first, content) == (row, texts[row % 3].encode())
            row += len(lengths)
            assert pa.total_allocated_bytes() - before < 100 * 2**20
    assert row == 90


def _varint(number: int) -> bytes:
    """As Thrift's compact protocol writes a number."""
    number, content = (number << 1) ^ (number >> 63), b""
    while number > 127:
        content, number = content + bytes([number & 127 | 128]), number >> 7
    return content + bytes([number])


@pytest.mark.parametrize(
    ("which", "stated", "dictionary"),
    [
        *(("file", 7, True), ("file", 2**62, False), ("row group", -1, True), ("row group", 7, False)),
        *(("row group", 9_322, True), ("row group", 10**9, False), ("row group", 2**62, True)),
    ],
)
def test_a_table_of_fewer_rows_than_it_states_is_damaged(
    which: str, stated: int, dictionary: bool, convert, tmp_path: Path
):
    """A footer that is forged, or of another file, names rows that nobody can read."""
    count = 9_321
    texts = [f"text {row}" for row in range(count)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": texts}), path, use_dictionary=dictionary, row_group_size=count)
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    body, footer = content[: -8 - size], content[-8 - size : -8]
    places = [match.start() for match in re.finditer(re.escape(_varint(count)), footer)]
    first = places[0 if which == "file" else -1]  # the file's number is before its row groups, a group's at its end
    forged = footer[:first] + _varint(stated) + footer[first + len(_varint(count)) :]
    path.write_bytes(body + forged + len(forged).to_bytes(4, "little") + content[-4:])
    found = convert(path)
    assert found.reasons == ["damaged_file"]
    assert len(found.documents) == (count if which == "file" or stated > count else max(0, stated))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_no_damaged_byte_of_a_table_ends_the_process(name: str):
    """In a process of its own: pyarrow aborts one that asks for damaged statistics."""
    program = """
import io, sys
from types import SimpleNamespace
import pyarrow as pa, pyarrow.parquet as pq
from outofcore.domains.text.documents.parquet import values
from outofcore.errors import OutOfCoreError
from outofcore.raw.damage import DamagedInput

file, name, table = io.BytesIO(), sys.argv[1], pa.table({"text": ["one", "two", None]})
if name == "a.arrow":
    with pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
else:
    pq.write_table(table, file, compression="none")
damaged = 0
for place in range(file.tell()):
    content = bytearray(file.getvalue())
    content[place] ^= 1
    try:
        list(values(SimpleNamespace(name=name, stream=io.BytesIO(content)), "text"))
    except (OutOfCoreError, DamagedInput):
        damaged += 1
print("damaged", damaged > 50)
"""
    ended = subprocess.run([sys.executable, "-c", program, name], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "damaged True\n"), ended.stderr[-2000:]


def test_parquet_with_bytes_of_one_size(convert, tokenizer: Tokenizer, tmp_path: Path):
    pq.write_table(pa.table({"text": pa.array(["one", None, "two"], pa.binary(3))}), tmp_path / "a.parquet")
    assert convert(tmp_path).documents == tokens_of(["one", "two"], tokenizer)
