from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tokenizers

from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.domains.text.tokens import learn
from outofcore.domains.text.tokens.learn import CHUNK_BYTES, make_tokenizer, sample
from outofcore.errors import ParamsError
from outofcore.raw.files import find_files
from tests.domains.text.conftest import PROSE
from tests.processes import run_program


def make(folder: Path, **keys):
    section = TextSection.model_validate({"raw": str(folder), **keys})
    return section, find_files(folder, "**/*", SUFFIXES, section="text")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.txt").write_text(PROSE * 300, encoding="utf-8", newline="")
    (raw / "b.txt").write_text("zebra " * 20_000)
    lines = [json.dumps({"text": f"line {number} of many"}) for number in range(2000)]
    (raw / "c.jsonl").write_text("\n".join(lines))
    return raw


def test_a_vocabulary_of_the_size_asked_for_with_the_end_first(folder: Path):
    text = make_tokenizer(*make(folder, tokenizer={"vocab_size": 400}))
    tokenizer = tokenizers.Tokenizer.from_str(text)
    assert tokenizer.get_vocab_size() == 400
    assert tokenizer.token_to_id("<|endoftext|>") == 0
    assert tokenizer.decode(tokenizer.encode(PROSE).ids) == PROSE
    assert len(tokenizer.encode("zebra zebra").ids) == 2
    without = make_tokenizer(*make(folder, tokenizer={"vocab_size": 400}, source={"end_of_document": None}))
    assert tokenizers.Tokenizer.from_str(without).token_to_id("<|endoftext|>") is None


def test_the_same_bytes_in_another_process_with_one_thread(folder: Path):
    program = (
        "import sys; from tests.domains.text.tokens.test_learn import make; from pathlib import Path\n"
        "from outofcore.domains.text.tokens.learn import make_tokenizer\n"
        "sys.stdout.write(make_tokenizer(*make(Path(sys.argv[1]), tokenizer={'vocab_size': 900})))"
    )
    done = run_program(program, str(folder), folder=folder, TOKENIZERS_PARALLELISM="0")
    assert done.stdout == make_tokenizer(*make(folder, tokenizer={"vocab_size": 900}))


def test_the_sample_is_a_share_of_each_file_in_chunks_that_end_with_words(folder: Path, monkeypatch):
    monkeypatch.setattr(learn, "SAMPLE_BYTES", 150_000)
    section, files = make(folder)
    chunks = list(sample(section, files, []))
    total = sum(file.bytes for file in files)
    for file in files[:2]:
        assert any(file.path.read_bytes().startswith(chunk.encode()) for chunk in chunks if chunk)
    assert abs(sum(len(chunk.encode()) for chunk in chunks) - 150_000 * (total - 22_000) // total) < 22_000
    assert all(len(chunk.encode()) <= CHUNK_BYTES + 4 for chunk in chunks)
    assert max(len(chunk.encode()) for chunk in chunks) > CHUNK_BYTES // 2


def test_a_long_document_is_sampled_without_being_read_whole(tmp_path: Path, monkeypatch):
    (tmp_path / "long.txt").write_bytes(b"word " * 1_200_000)
    monkeypatch.setattr(learn, "SAMPLE_BYTES", 200_000)
    section, files = make(tmp_path)
    chunks = list(sample(section, files, []))
    assert "".join(chunks) == "word " * 40_000


def test_a_document_that_is_not_valid_is_passed_over(tmp_path: Path):
    (tmp_path / "bad.jsonl").write_bytes(b'{"text": "good"}\nnot json\n{"text": "\xff"}\n')
    section, files = make(tmp_path)
    assert list(sample(section, files, [])) == ["good"]


def test_a_given_tokenizer_is_taken_as_it_is(tokenizer_path: Path, tmp_path: Path):
    def given(path: Path) -> TextSection:
        return TextSection.model_validate({"raw": "raw", "tokenizer": {"kind": "file", "given": str(path)}})

    shutil.copy(tokenizer_path, tmp_path / "tokenizer.json")
    for path in (tokenizer_path, tmp_path):
        assert json.loads(make_tokenizer(given(path), [])) == json.loads(tokenizer_path.read_text(encoding="utf-8"))
    (tmp_path / "other").write_text("[]")
    for name in ("absent", "other"):
        with pytest.raises(ParamsError, match=f"text.tokenizer.given: .*{name}"):
            make_tokenizer(given(tmp_path / name), [])


def test_files_of_another_kind_are_refused(tmp_path: Path):
    section = TextSection.model_validate({"raw": "raw", "tokenizer": {"kind": "gpt2", "given": str(tmp_path)}})
    with pytest.raises(ParamsError, match=r"expected a folder with encoder.json and vocab.bpe, or vocab.json and"):
        make_tokenizer(section, [])


def test_no_text_is_no_tokenizer(tmp_path: Path):
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ParamsError, match=r"no text to learn .* in UTF-8; tokens .* outofcore\.write_store"):
        make_tokenizer(*make(tmp_path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"content": "some text", "id": 7}'),
        ("a.json", '[{"content": "some text", "id": 7}]'),
        ("a.jsonl", '{"content": "some text", "id": 7, "text": ["a", "b"]}'),
    ],
    ids=["lines", "an array", "a list of texts"],
)
def test_a_missing_column_names_those_that_are_there(tmp_path: Path, name: str, content: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(ParamsError, match=r"a string 'text' \(source.text_column\), got content \(str\), id \(int\)"):
        make_tokenizer(*make(tmp_path))
