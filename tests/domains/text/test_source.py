"""Raw files to documents and tokens, against reading whole files and ``tokenizers`` on whole documents."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outofcore
from outofcore.domains.text.documents import reading
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.schema import attributes, tokenizer_of
from outofcore.domains.text.tensors import make_reading
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.errors import RawInputError
from tests.domains.text.conftest import LIMIT, PROSE, divided, tokens_of
from tests.domains.text.families import HOSTILE


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
    found = convert(tmp_path, source={"separator": "<|endoftext|>", "end_of_document": None})
    assert found.documents == [tokenizer.encode(text) for text in ("one", "two\r\n", "three")]


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("a.csv", b"text\nx", r"is a table; save it as \.parquet, or a document per line"),
        ("a", b"ARROW1\0\0", r"is a table; save it as \.parquet, or a document per line"),
        ("train.bin", bytes(range(200)), r"is no text; .* outofcore\.open_tokens"),
        ("val.npy", bytes(range(200)), r"is no text; .* outofcore\.open_tokens"),
    ],
    ids=["CSV", "Feather", "ids of nanoGPT", "ids of NumPy"],
)
def test_what_is_no_text_is_refused_where_it_is_named(convert, tmp_path: Path, name: str, content: bytes, advice: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RawInputError, match=rf"{name} {advice}"):
        convert(tmp_path / name)


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
