"""Lines and arrays of JSON, against ``json`` and ``tokenizers`` on each of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.text.documents import records
from outofcore.domains.text.documents.hub import given_records
from outofcore.domains.text.documents.records import read_documents
from outofcore.domains.text.params import SUFFIXES
from outofcore.domains.text.source import placed_units
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.raw.files import RawFile, find_files
from outofcore.raw.unit import Stretch
from tests.domains.text.conftest import PROSE, tokens_of


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


@pytest.mark.usefixtures("tiny")
def test_a_line_that_is_too_long_costs_itself(convert, tokenizer: Tokenizer, tmp_path: Path):
    texts = ["x" * size for size in (100, 280, 310, 400, 5000, 20)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    found = convert(tmp_path, filters={"duplicates": "keep"})
    assert found.documents == tokens_of([texts[0], texts[1], texts[5]], tokenizer)
    assert found.reasons == ["too_large", "too_large", "too_large"]


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
