"""Raw files to documents and tokens, against reading whole files and ``tokenizers`` on whole documents."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

import outofcore
from outofcore.domains.text.documents import reading, records
from outofcore.domains.text.documents.hub import given_records
from outofcore.domains.text.documents.parquet import values
from outofcore.domains.text.documents.records import read_documents
from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.domains.text.schema import attributes, tokenizer_of
from outofcore.domains.text.source import placed_units
from outofcore.domains.text.tensors import make_reading
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.errors import RawInputError
from outofcore.raw.files import Member, RawFile, find_files
from outofcore.raw.unit import Stretch
from tests.domains.text.conftest import PROSE
from tests.domains.text.families import FAMILIES, HOSTILE


def tokens_of(texts: list[str], tokenizer: Tokenizer) -> list[list[int]]:
    return [[*tokenizer.encode(text), tokenizer.end_id] for text in texts]


LIMIT = 150


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and bounds of a few hundred bytes."""
    monkeypatch.setattr(reading, "BLOCK_BYTES", 61)
    for module in (reading, records):
        monkeypatch.setattr(module, "RECORD_BYTES", 300)


def divided(text: str, limit: int = LIMIT) -> list[str]:
    """By the words of the page: at the last blank line of the second half, else line, else space, else character."""
    data, parts = text.encode(), []
    while len(data) > limit:
        half = data[:limit]
        ends = [match.end() for match in re.finditer(rb"\n\r?(?=\n)", half) if match.start() > limit // 2]
        ends = [end + 1 for end in ends] or [m.end() for m in re.finditer(rb"\n", half) if m.start() > limit // 2]
        ends = ends or [match.start() for match in re.finditer(rb" ", half) if match.start() > limit // 2]
        end = ends[-1] if ends else len(half.decode(errors="ignore").encode())
        parts.append(data[:end].decode())
        data = data[end:]
    return [*parts, data.decode()]


def test_a_plain_file_is_a_document(convert, tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "b.txt").write_bytes(PROSE.encode())
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "c.md").write_bytes(b"not looked at in a folder")
    found = convert(tmp_path)
    assert found.documents == tokens_of([PROSE], tokenizer)
    assert found.keys == [hashlib.sha256(PROSE.encode()).digest()[:16]]
    size, count = len(PROSE.encode()), len(PROSE)
    assert found.columns == [{"bytes": size, "characters": count, "source": 1, "member": 0, "offset": 0}]
    assert found.reasons == ["too_short"]
    assert found.counts["bytes"] == size
    assert found.counts["tokens"] == len(found.documents[0]) - 1
    assert convert(tmp_path / "c.md").documents == tokens_of(["not looked at in a folder"], tokenizer)


def test_the_first_document_is_audited_and_others_by_their_content(convert, tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": f"text {number}"}) for number in range(400)))
    assert convert(tmp_path, one_in=10**9).audited == 1
    some = convert(tmp_path, one_in=4).audited
    assert 60 < some < 140
    assert convert(tmp_path, one_in=1).audited == 400


def test_a_separator_divides_documents(convert, tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"one<|endoftext|>two\r\n<|endoftext|><|endoftext|>three")
    found = convert(tmp_path, source={"separator": "<|endoftext|>"})
    assert found.documents == tokens_of(["one", "two\r\n", "three"], tokenizer)
    assert [column["offset"] for column in found.columns] == [0, 16, 47]


def test_a_document_without_an_end(convert, tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"one--two")
    found = convert(tmp_path, source={"separator": "--", "end_of_document": None})
    assert found.documents == [tokenizer.encode("one"), tokenizer.encode("two")]


def test_the_text_of_a_document_cannot_end_it(convert, tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"one<|endoftext|>two")
    (document,) = convert(tmp_path).documents
    assert document.count(tokenizer.end_id) == 1


def test_a_mark_is_no_text_and_wrong_bytes_reject_a_document(convert, tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "mark.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\rc")
    (tmp_path / "wrong.txt").write_bytes(b"abc \xff\xfe def \xe4\xb8")
    found = convert(tmp_path)
    assert found.documents == tokens_of(["a\r\nb\rc"], tokenizer)
    assert found.columns[0]["offset"] == 3
    assert found.counts["byte_order_marks"] == 1
    ((name, reject),) = found.rejects
    assert (name, reject.reason, reject.detail) == ("wrong.txt", "invalid_utf8", "byte 4 of the document")


def test_sizes_are_filtered(convert, tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "a.txt").write_text("a|bcd|éé|fghij")
    found = convert(tmp_path, source={"separator": "|"}, filters={"min_bytes": 3, "max_bytes": 4})
    assert found.documents == tokens_of(["bcd", "éé"], tokenizer)
    assert [(reject.reason, reject.offset) for _, reject in found.rejects] == [("too_short", 0), ("too_long", 11)]


def test_members_of_compressed_archives_are_told_apart(convert, tokenizer: Tokenizer, tmp_path: Path):
    members = {"a.jsonl": json.dumps({"text": PROSE}), "readme.html": "no", "z/a.jsonl": "no JSON", "b.txt": PROSE[1:]}
    with zstandard.open(tmp_path / "a.tar.zst", "wb") as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content.encode())
            archive.addfile(entry, io.BytesIO(content.encode()))
    found = convert(tmp_path)
    assert found.documents == tokens_of([PROSE, PROSE[1:]], tokenizer)
    assert [(column["source"], column["member"]) for column in found.columns] == [(0, 0), (0, 2)]
    assert [(name, reject.reason) for name, reject in found.rejects] == [("a.tar.zst/z/a.jsonl", "not_json")]


@pytest.mark.parametrize("many", [1, 200])
def test_lines_of_json(convert, tokenizer: Tokenizer, tmp_path: Path, many: int):
    """Many plain lines are read as a table, a few or odd ones one by one; nobody can tell."""
    plain = [
        json.dumps({"id": number, "text": f"{PROSE} {number}"}, ensure_ascii=number % 2 == 0) for number in range(many)
    ]
    odd = [
        '{"text": "pair \\ud83d\\ude00", "text": "the last counts"}',
        "  ",
        '{"other": 1}',
        '{"text": 5}',
        '{"text": "half \\ud83d"}',
        "[1, 2]",
        '{"text": "tab \t inside"}',
        '{"text": "a"} {"text": "b"}',
        "{" * 30_000,
        '{"text": "NUL \\u0000 and \\n"}\r',
        '{"text": NaN}',
        '{"text": ""}',
    ]
    plain_file, odd_file = tmp_path / "a.jsonl", tmp_path / "b.ndjson"
    plain_file.write_bytes(b"\xef\xbb\xbf" + "\n".join(plain).encode())
    odd_file.write_bytes("\n".join(plain + odd).encode() + b'\n{"text": "bad \xff"}\n')
    found = convert(plain_file)
    texts = [f"{PROSE} {number}" for number in range(many)]
    assert found.documents == tokens_of(texts, tokenizer)
    data = plain_file.read_bytes()
    assert all(
        data[column["offset"] :].startswith(b'{"id": %d' % number) for number, column in enumerate(found.columns)
    )
    expected = ["no_text", "no_text", "invalid_utf8", "no_text", "not_json", "not_json", "not_json", "no_text"]
    found = convert(odd_file)
    assert found.reasons == [*expected, "too_short", "invalid_utf8"]
    good = [*texts, "the last counts", "NUL \0 and \n"]
    assert found.documents == tokens_of(good, tokenizer)


LINES = b'{"text": "one \xc3\xa9"}\n\n{"text": "two"}\n'


@pytest.mark.parametrize("name", ["a.json", "A.JSON", "a.json.gz", "named"])
def test_lines_of_json_are_known_by_their_content(convert, tokenizer: Tokenizer, tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(gzip.compress(LINES) if name.endswith(".gz") else LINES)
    found = convert(tmp_path / name if name == "named" else tmp_path)
    assert found.documents == tokens_of(["one é", "two"], tokenizer)
    assert [column["offset"] for column in found.columns] == [0, LINES.index(b'{"text": "two')]


@pytest.mark.parametrize(
    ("content", "reasons"),
    [
        (b'{\n  "text": "pretty"\n}\n', ["not_json_lines"]),
        (b'\n "a string"', ["not_json_lines"]),
        (b'{"version": 1}', ["no_text"]),
        (b" \n", []),
        (b"", []),
    ],
)
def test_other_json_is_rejected_and_no_text(convert, tokenizer: Tokenizer, tmp_path: Path, content, reasons):
    (tmp_path / "a.json").write_bytes(content)
    (tmp_path / "b.txt").write_bytes(b"text")
    found = convert(tmp_path)
    assert found.reasons == reasons
    assert found.documents == tokens_of(["text"], tokenizer)


@pytest.mark.parametrize("indent", [None, 1], ids=["in a line", "indented"])
@pytest.mark.parametrize("packing", ["", ".gz"], ids=["plain", "compressed"])
@pytest.mark.usefixtures("tiny")
def test_an_array_of_json_is_read_like_lines(convert, tokenizer: Tokenizer, tmp_path: Path, indent, packing: str):
    texts = ["one", 'two ", ] [ { \\', None, PROSE[:100], "\u6625 \\u0041", *map(str, range(50))]
    records = [{"meta": {"a": [1, "]"]}, "text": text} for text in texts] + [{"text": ["no string"]}]
    content = json.dumps(records, indent=indent).replace("two", "tw\xff").encode("latin-1")
    (tmp_path / f"a.json{packing}").write_bytes(gzip.compress(content) if packing else content)
    found = convert(tmp_path)
    assert found.documents == tokens_of([texts[0], *texts[3:]], tokenizer)
    assert [column["offset"] for column in found.columns] == [0, *range(3, len(texts))]
    assert sorted(found.reasons) == ["invalid_utf8", "no_text", "no_text"]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("content", "documents", "reason"),
    [
        ('[{"text": "one"}, {"text": "two"', ["one"], "damaged_file"),
        ('[{"text": "one"}, {"text": nothing}, {"text": "two"}]' + " " * 400, ["one"], "damaged_file"),
        ('[{"text": "one"}, {"text": "' + "x" * 500 + '"}, {"text": "two"}]', ["one"], "damaged_file"),
        ("[" * 200_000, [], "damaged_file"),
        ("[]", [], None),
    ],
    ids=["cut short", "no JSON", "a long object", "brackets alone", "empty"],
)
def test_an_array_of_json_is_read_up_to_its_damage(convert, tokenizer, tmp_path: Path, content, documents, reason):
    (tmp_path / "a.json").write_text(content)
    found = convert(tmp_path)
    assert found.documents == tokens_of(documents, tokenizer)
    assert found.reasons == [reason] * (reason is not None)


@pytest.mark.parametrize(("name", "content"), [("a.csv", b"text\nx"), ("a", b"ARROW1\0\0")])
def test_a_table_that_is_named_is_refused(convert, tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RawInputError, match=rf"{name} is a table; save it as \.parquet, or a document per line"):
        convert(tmp_path / name)


@pytest.mark.parametrize("name", ["train.bin", "val.npy"])
def test_a_file_of_tokens_that_is_named_is_refused(convert, tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(bytes(range(200)))
    with pytest.raises(RawInputError, match=rf"{name} is no text; .* outofcore\.open_tokens"):
        convert(tmp_path / name)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_text_of_another_encoding_is_the_text(convert, tokenizer: Tokenizer, tmp_path: Path, encoding, name):
    """Its offsets are those of the file."""
    texts = ["first \U0001f600", PROSE if name == "a.txt" else "é\n", "last"]
    if name == "a.jsonl":
        content = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        starts = [content.index(start) for start in ('{"text": "first', '{"text": "é', '{"text": "last')]
    else:
        content = "|".join(texts)
        starts = [0, len(texts[0]) + 1, content.rindex("last")]
    data = f"\ufeff{content}".encode(encoding)
    (tmp_path / name).write_bytes(data)
    found = convert(tmp_path, source={"separator": "|"})
    assert found.documents[:3] == tokens_of(texts, tokenizer)
    if name == "a.txt":
        parts = convert(tmp_path, source={"separator": "|", "longest_document": LIMIT})
        before = [len(f"\ufeff{texts[0]}|".encode(encoding))]
        for part in divided(texts[1])[:-1]:
            before.append(before[-1] + len(part.encode(encoding)))
        assert [column["offset"] for column in parts.columns[1 : 1 + len(before)]] == before
    places = [len(f"\ufeff{content[:start]}".encode(encoding)) for start in starts]
    assert [column["offset"] for column in found.columns[:3]] == places
    assert found.counts["byte_order_marks"] == 1
    (tmp_path / name).write_bytes(data[:-1])
    assert convert(tmp_path, source={"separator": "|"}).reasons[:1] == ["damaged_file"]


def test_lines_of_another_key(convert, tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"body": {"text": 1}, "content": "here"}\n' * 300)
    found = convert(tmp_path, source={"text_column": "content"}, filters={"duplicates": "keep"})
    assert found.documents == tokens_of(["here"] * 300, tokenizer)
    assert convert(tmp_path).reasons == ["no_text"] * 300


ALIKE = [
    b'{"text": "x"}',
    b'{"text": "x"} {"text": "y"}',
    b'{"text": "a\\nb", "z": [1, {"q": null}]}',
    b'{"a": {',
    b"}}",
    b'{"text": "\\u00e9\\ud83d\\ude00"}\r',
    b"  ",
    b'{"text": null}',
    b'{"text": "\xc3\x28"}',
    b'{"text": "x", "text": "y"}',
    b'{"text": 1}',
    b'{"text": "\x01"}',
    b'{"text": "\\ud800"}',
    b'{"t": 01, "text": "x"}',
    b'{"text": "x",}',
    b'{"text": "x"}}',
    b"{}",
    b'{"text": "a\\/b\\u0000"}',
    b'{"x": 1e999, "text": "big"}',
    b'{"x": NaN, "text": "nan"}',
    b"{'text': 'x'}",
    b'{"text": "x"} // comment',
]


@settings(max_examples=400, deadline=None)
@given(chosen=st.lists(st.sampled_from(ALIKE), min_size=1, max_size=4))
def test_a_table_of_lines_is_the_lines_one_by_one(chosen):
    payload = b"\n".join(chosen)
    stretch = Stretch(0, "a", 0, 7, 0, len(payload))
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(records, "_TABLE_BYTES", -1)
        at_once = list(records.texts_of_lines(payload, stretch, "text"))
        patch.setattr(records, "_TABLE_BYTES", 10**9)
        assert at_once == list(records.texts_of_lines(payload, stretch, "text"))


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


def _varint(number: int) -> bytes:
    """As Thrift's compact protocol writes a number."""
    number, content = (number << 1) ^ (number >> 63), b""
    while number > 127:
        content, number = content + bytes([number & 127 | 128]), number >> 7
    return content + bytes([number])


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("stated", [7, 9_322, 10**9, 2**62, -1])
@pytest.mark.parametrize("which", ["file", "row group"])
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


def test_what_is_damaged_costs_what_is_damaged(convert, tmp_path: Path):
    lines = b"".join(json.dumps({"text": f"{number} {PROSE}"}).encode() + b"\n" for number in range(5000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines)[:-2000])
    (tmp_path / "b.txt").write_text(PROSE)
    found = convert(tmp_path)
    assert found.reasons == ["damaged_file"]
    assert 1 < len(found.documents) < 5002
    assert found.found == len(found.documents) + 1


@pytest.mark.usefixtures("tiny")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    texts=st.lists(
        st.one_of(HOSTILE.map(lambda text: text * 6), st.sampled_from([PROSE, PROSE * 2, "a b " * 90, "x" * 500])),
        max_size=5,
    ),
    separator=st.sampled_from([None, "\n\n", "<|end|>", "aa"]),
    block=st.sampled_from([7, 61, 500, 1 << 20]),
    sizes=st.sampled_from([(1, None), (1, 100), (40, 400), (200, 10_000)]),
)
def test_a_long_text_is_filtered_and_then_divided_into_documents(
    texts, separator, block, sizes, convert, tokenizer, tmp_path
):
    whole = (separator or "").join(texts)
    path = tmp_path / "a.txt"
    path.write_bytes(whole.encode())
    least, most = sizes
    filters = {"duplicates": "keep", "min_bytes": least, "max_bytes": most}
    settings = {"source": {"separator": separator, "longest_document": LIMIT}, "filters": filters}
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(reading, "BLOCK_BYTES", block)
        found = convert(path, one_in=1, **settings)
    read = [text for text in (whole.split(separator) if separator else [whole]) if text]
    documents = [text for text in read if least <= len(text.encode()) <= (most or 1e9)]
    if whole:
        assert len(found.rejects) == len(read) - len(documents)
    parts = [part for text in documents for part in divided(text)]
    assert found.documents == tokens_of(parts, tokenizer)
    assert found.counts.get("divisions", 0) == len(parts) - len(documents)
    assert [column["bytes"] for column in found.columns] == [len(part.encode()) for part in parts]
    data = whole.encode()
    for part, column in zip(parts, found.columns, strict=True):
        assert data[column["offset"] :].startswith(part.encode())
    lines = "".join(json.dumps({"text": text}) + "\n" for text in read)
    (tmp_path / "a.jsonl").write_text(lines)
    found = convert(tmp_path / "a.jsonl", **settings)
    if max(map(len, lines.splitlines()), default=0) <= 300:
        assert found.documents == tokens_of(parts, tokenizer)
        assert len({column["offset"] for column in found.columns}) == len(parts)


@pytest.mark.usefixtures("tiny")
def test_what_is_wrong_with_a_part_costs_that_part(convert, tokenizer: Tokenizer, tmp_path: Path):
    text = "".join(f"line {number} of a text\n" for number in range(60))
    parts = divided(text)
    data = text.encode().replace(b"line 30", b"line \xff0")
    (tmp_path / "a.txt").write_bytes(data)
    found = convert(tmp_path, source={"longest_document": LIMIT})
    assert found.documents == tokens_of([part for part in parts if "line 30" not in part], tokenizer)
    assert found.reasons == ["invalid_utf8"]


@pytest.mark.usefixtures("tiny")
def test_long_values_and_members_of_archives_are_divided(convert, tokenizer: Tokenizer, tmp_path: Path):
    text = PROSE[:220].replace("\n", " ")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for number, content in enumerate((PROSE, "short", text)):
            entry = tarfile.TarInfo(f"{number}.txt")
            entry.size = len(content.encode())
            archive.addfile(entry, io.BytesIO(content.encode()))
    lines = "".join(json.dumps({"text": each}, ensure_ascii=False) + "\n" for each in (text[:210], "one"))
    (tmp_path / "b.jsonl").write_text(lines, encoding="utf-8")
    pq.write_table(pa.table({"text": [text[1:], None, "two"]}), tmp_path / "c.parquet")
    found = convert(tmp_path, source={"longest_document": LIMIT}, filters={"duplicates": "keep"})
    members = [(0, PROSE), (1, "short"), (2, text)]
    assert found.documents == tokens_of(
        [part for each in (PROSE, "short", text, text[:210], "one", text[1:], "two") for part in divided(each)],
        tokenizer,
    )
    expected = [number for number, each in members for _ in divided(each)]
    assert [column["member"] for column in found.columns[: len(expected)]] == expected


@pytest.mark.usefixtures("tiny")
def test_a_document_at_which_tokenizers_panics_is_one_reject(convert, tmp_path: Path):
    file = FAMILIES["gpt2"]()
    strips = AddedToken(" the", single_word=True, lstrip=True, rstrip=True, normalized=False)
    file.add_tokens([AddedToken(" ", lstrip=True, normalized=False), strips])
    (tmp_path / "raw").mkdir()
    file.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "raw/a.txt").write_text("word.word," * 60 + " the  " + "word.word," * 60)
    (tmp_path / "raw/b.txt").write_text("word.word," * 60)
    settings = {"tokenizer": {"path": str(tmp_path / "tokenizer.json")}, "source": {"end_of_document": None}}
    found = convert(tmp_path / "raw", **settings)
    assert [(name, reject.reason) for name, reject in found.rejects] == [("a.txt", "not_tokenized")]
    assert [column["source"] for column in found.columns] == [1]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("begin", "end"), [("<s>", "</s>"), ("<s>", None), ("</s>", "</s>"), (None, "</s>")])
def test_documents_begin_and_end_with_their_tokens(begin: str | None, end: str | None, convert, tmp_path: Path):
    path, source = tmp_path / "tokenizer.json", {"begin_of_document": begin, "end_of_document": end}
    outofcore.train_tokenizer([{"text": PROSE}], path, vocab_size=300, source=source)
    own = Tokenizer(path.read_text(), end, begin)
    (tmp_path / "a.txt").write_bytes(PROSE.encode() * 3)
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n{"text": "two <s>"}\n')
    found = convert(
        tmp_path, match="[ab].*", tokenizer={"path": str(path)}, source=source | {"longest_document": LIMIT}
    )
    vocabulary = json.loads(own.json)["model"]["vocab"]
    around = [[] if each is None else [vocabulary[each]] for each in (begin, end)]
    expected = [[*around[0], *own.encode(text), *around[1]] for text in (*divided(PROSE * 3), "one", "two <s>")]
    assert found.documents == expected
    assert found.counts["divisions"] == len(expected) - 3
    section = TextSection.model_validate({"raw": "raw", "source": source, "tensors": {"reset_at_documents": True}})
    reading = make_reading(attributes(own), section)
    assert [reading.end] == (around[1] or around[0])
    assert ("begin_of_document" in attributes(own), "begin_of_document" in section.model_dump()["source"]) == (
        (False, False) if begin is None else (True, True)
    )
    assert tokenizer_of(attributes(own)) == own


@pytest.mark.usefixtures("tiny")
def test_characters_have_their_ids_in_long_documents_too(convert, tmp_path: Path):
    (tmp_path / "raw").mkdir()
    texts = {"a.txt": PROSE * 2, "b.txt": "known, ", "c.txt": "known, " * 60 + "\u2603 unknown", "d.txt": "\u2603"}
    for name, text in texts.items():
        (tmp_path / "raw" / name).write_bytes(text.encode())
    records = [{"m": {"text": PROSE}}]
    known = outofcore.train_tokenizer(records, tmp_path / "tokenizer.json", kind="characters", column="m.text")
    ids = {character: number for number, character in enumerate(sorted(set(PROSE)))}  # as in nanoGPT's prepare.py
    assert known["vocabulary"] == len(ids) + 1
    found = convert(tmp_path / "raw", tokenizer={"path": str(tmp_path / "tokenizer.json")})
    assert found.documents == [[*map(ids.get, texts[name]), len(ids)] for name in ("a.txt", "b.txt")]
    assert [(name, reject.reason) for name, reject in found.rejects] == [
        ("c.txt", "not_tokenized"),
        ("d.txt", "not_tokenized"),
    ]
    tokenizer = Tokenizer((tmp_path / "tokenizer.json").read_text(), None)
    assert tokenizer.decode(np.array(found.documents[0][:-1])) == PROSE * 2


@pytest.mark.usefixtures("tiny")
def test_a_line_that_is_too_long_costs_itself(convert, tokenizer: Tokenizer, tmp_path: Path):
    texts = ["x" * size for size in (100, 280, 310, 400, 5000, 20)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    found = convert(tmp_path, filters={"duplicates": "keep"})
    assert found.documents == tokens_of([texts[0], texts[1], texts[5]], tokenizer)
    assert found.reasons == ["too_large", "too_large", "too_large"]


def lines_of_a_text(size: int) -> str:
    return "".join(f"line {number} of a text that goes on\n\n" for number in range(size // 30))[:size]


@pytest.mark.parametrize("kind", ["txt", "jsonl", "several", "divided"])
def test_documents_too_few_for_the_splits_are_split_by_place(convert, tmp_path: Path, kind: str):
    """By default, and by name."""
    text = lines_of_a_text(200_000)
    if kind == "jsonl":
        (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    elif kind == "several":
        for number in range(3):
            (tmp_path / f"{number}.txt").write_text(text[number * 66_000 :][:66_000])
        text = text[: 3 * 66_000]
    else:
        (tmp_path / "a.txt").write_text(text)
    limit = {"longest_document": 50_000} if kind == "divided" else {}
    for by in ("content", "place"):
        splits = {"by": by, "val": 0.1, "test": 0.05}
        found = convert(tmp_path, source=limit, splits=splits)
        if kind == "divided" and by == "content" and not found.splits:
            continue  # a hash filled all of them
        sizes = {"train": 0, "val": 0, "test": 0}
        for split, column in zip(found.splits, found.columns, strict=True):
            sizes[split] += column["bytes"]
        assert sum(sizes.values()) == len(text)
        assert found.splits == sorted(found.splits, key=["train", "val", "test"].index)
        for split, share in (("train", 0.85), ("val", 0.1), ("test", 0.05)):
            assert abs(sizes[split] / len(text) - share) < 0.001
        assert found.counts.get("split_by_place", 0) == (len(found.columns) if by == "content" else 0)


@pytest.mark.parametrize("kind", ["txt", "jsonl"])
@pytest.mark.parametrize("copied", [0, 1, 2])
def test_copies_are_dropped_before_text_is_split_by_place(convert, tmp_path: Path, kind: str, copied: int):
    """Whichever of them an edge divides."""
    texts = [lines_of_a_text(90_000).replace("line", name) for name in ("one", "two", "three")]
    size = sum(map(len, texts))
    texts.append(texts[copied])
    if kind == "txt":
        for number, text in enumerate(texts):
            (tmp_path / f"{number}.txt").write_text(text)
    else:
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found = convert(tmp_path, splits={"by": "place", "val": 0.1, "test": 0.05})
    sizes = dict.fromkeys(("train", "val", "test"), 0)
    keys = set()
    for split, column, key in zip(found.splits, found.columns, found.keys, strict=True):
        sizes[split] += 0 if key in keys else column["bytes"]  # dropped by the conversion
        keys.add(key)
    assert sum(sizes.values()) == size
    assert [round(held / size, 2) for held in sizes.values()] == [0.85, 0.1, 0.05]
    kept = convert(tmp_path, filters={"duplicates": "keep"})
    assert (kept.splits, len(kept.columns)) == ([], 4)  # equal documents stay in one split


@pytest.mark.parametrize("copied", [True, False], ids=["input, train and val", "train and val"])
def test_a_note_says_that_held_out_text_is_in_train(convert, tmp_path: Path, capsys, *, copied: bool):
    text = lines_of_a_text(200_000)
    files = {"train.txt": text[:180_000], "val.txt": text[180_000:], **({"input.txt": text} if copied else {})}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    convert(tmp_path, splits={"by": "place"})
    assert ("lines held out" in capsys.readouterr().err) == copied


def test_the_hash_decides_where_it_fills_all_splits_and_small_texts_stay_whole(convert, tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"{n} {PROSE}"}) + "\n" for n in range(900)))
    assert convert(tmp_path).splits == []
    few = {"val": 1e-4, "test": 0.0}
    assert len(set(convert(tmp_path, splits=few).splits)) == 2
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"document {n}"}) + "\n" for n in range(4096)))
    assert convert(tmp_path, splits=few).splits == []
    small = tmp_path / "small"
    small.mkdir()
    (small / "a.txt").write_text(lines_of_a_text(20_000))
    assert len(convert(small).documents) == 1
    assert len(convert(small, splits={"by": "place"}).documents) == 3
    assert len(convert(small, splits={"by": "place", "val": 0.0, "test": 0.5}).documents) == 2


@pytest.mark.parametrize("kind", ["parquet", "dictionary", "lines", "text", "utf-16", "records"])
def test_a_unit_has_a_bounded_number_of_documents(section_of, tmp_path: Path, kind: str) -> None:
    """Each takes memory, however short it is; all have the offset that the file has."""
    count = 50_000
    files: list[RawFile] = []
    if kind in ("parquet", "dictionary"):
        table = pa.table({"text": pa.array([""] * count)})
        pq.write_table(table, tmp_path / "a.parquet", use_dictionary=kind == "dictionary")
        offsets = range(count)
    elif kind == "lines":
        (tmp_path / "a.jsonl").write_text('{"text": ""}\n' * count)
        offsets = range(0, 13 * count, 13)
    elif kind == "records":
        files = [given_records([{"text": ""}] * count, "text")]
        offsets = range(count)
    else:
        (tmp_path / "a.txt").write_text("a||" * count, encoding="utf-16" if kind == "utf-16" else "utf-8", newline="")
        offsets = range(2, 2 + 6 * count, 6) if kind == "utf-16" else range(0, 3 * count, 3)
    section = section_of(tmp_path, source={"separator": "||"}, filters={"min_bytes": 2})
    files = files or find_files(tmp_path, "**/*", SUFFIXES, section="text")
    read = [read_documents(unit, section) for unit in placed_units(files, section, None)]
    assert max(len(each.rejects) for each in read) <= 1 << 14
    assert [reject.offset for each in read for reject in each.rejects] == list(offsets)
    assert {reject.reason for each in read for reject in each.rejects} == {"too_short"}
