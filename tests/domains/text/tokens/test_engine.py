from __future__ import annotations

import threading
import unicodedata
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

import outofcore
from outofcore.domains.text.tokens import engine as engines
from outofcore.domains.text.tokens.engine import FastEngine, ReferenceEngine, open_engine
from outofcore.domains.text.tokens.tokenizer import EncodingError, Tokenizer, reporting_panics
from tests.domains.text.conftest import PROSE
from tests.domains.text.families import END, FAMILIES, HOSTILE


def split(ids, lengths):
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if len(lengths) else []


def test_a_byte_level_bpe_is_done_by_the_fast_engine(tokenizer: Tokenizer):
    assert isinstance(open_engine(tokenizer), FastEngine)


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(HOSTILE, max_size=5))
def test_ids_are_those_of_tokenizers(tokenizer: Tokenizer, texts):
    library = tokenizers.Tokenizer.from_str(tokenizer.json)
    expected = [library.encode(text).ids for text in texts]
    data = [text.encode() for text in texts]
    assert split(*open_engine(tokenizer).encode(data)) == expected
    assert split(*ReferenceEngine(tokenizer).encode(data)) == expected


CONTENTS = st.sampled_from(
    ["<tool>", "<tool_call>", "ool_call> a", "cat", " the", "  ", "\n\n", "<|im_start|>", "Straße", "Å", "7", END]
)
ADDED = st.builds(
    tokenizers.AddedToken,
    CONTENTS,
    single_word=st.booleans(),
    lstrip=st.booleans(),
    rstrip=st.booleans(),
    normalized=st.booleans(),
    special=st.booleans(),
)
SPACE = st.sampled_from(["", " ", "  ", "\n", " \r\n ", "\t", "\u00a0", ".", "_", "x", "s", "\u0301", "con", "CAT "])


@cache
def plain(family: str) -> str:
    """The file of a tokenizer without added tokens."""
    content: str = FAMILIES[family]().to_str()
    return content


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    added=st.lists(ADDED, max_size=4),
    parts=st.lists(st.one_of(CONTENTS, SPACE, CONTENTS.map(str.upper), HOSTILE), max_size=12),
)
def test_added_tokens_have_the_ids_of_the_file_whatever_their_order_and_flags(family, added, parts):
    """Against the library on the raw text, with ``encode_special_tokens`` alone."""
    file = tokenizers.Tokenizer.from_str(plain(family))
    file.add_special_tokens([END, "<|first|>"])
    file.add_tokens([token for token in added if not token.special])
    file.add_special_tokens([token for token in added if token.special])
    own, text = Tokenizer(file.to_str(), END), "".join(parts)
    file.encode_special_tokens = True
    try:
        with reporting_panics(text):
            expected = file.encode(text, add_special_tokens=False).ids
    except EncodingError:
        with pytest.raises(EncodingError):
            ReferenceEngine(own).encode([text.encode()])
        return
    for engine in (open_engine(own), ReferenceEngine(own)):
        ((ids,),) = (split(*engine.encode([text.encode()])),)
        if own.end_id in expected:  # which the text cannot have
            assert own.end_id not in ids
            assert END in text
        else:
            assert ids == expected


def test_a_text_at_which_tokenizers_panics_is_one_reject(tmp_path: Path):
    file = FAMILIES["gpt2"]()
    strips = tokenizers.AddedToken(" the", single_word=True, lstrip=True, rstrip=True, normalized=False)
    file.add_tokens([tokenizers.AddedToken(" ", lstrip=True, normalized=False), strips])
    own = Tokenizer(file.to_str(), None)
    assert not isinstance(open_engine(own), FastEngine)
    with pytest.raises(EncodingError, match=r"begins ' the  ' .* fails: AddedVocabulary bad split"):
        own.encode(" the  ")
    file.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in ("one", " the  ", "two")))
    figures = outofcore.convert(
        "text",
        tmp_path / "a.jsonl",
        tmp_path / "a.zarr",
        tokenizer=tmp_path / "tokenizer.json",
        source={"end_of_document": None},
    )
    assert (figures["accepted"], figures["rejected"]) == (2, {"not_tokenized": 1})


def test_what_the_fast_engine_cannot_do_is_done_by_tokenizers_but_want_of_memory_is_no_fault_of_a_text(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    engine = FastEngine(tokenizer)

    def raising(error: BaseException) -> None:
        def fail(_: int) -> None:
            raise error

        monkeypatch.setattr(engine, "_instance", fail)

    raising(type("PanicException", (BaseException,), {})("panicked"))
    assert engine.encode([b"some text"])[0].tolist() == tokenizer.encode("some text")
    raising(MemoryError())
    with pytest.raises(MemoryError):
        engine.encode([b"some text"])


UNLIKE = {
    "a mark of Unicode 11": "a\u059a\u0316\u1dfa\u0746b",
    "marks of Unicode 14": "\u0628\u0652\u0898 \u0628\u0651\u0899\u064e",
    "a pair that Unicode 13 composes": "\U00011935\U00011930",
    "a pair that Unicode 16 composes": "\U000105d2\u0307",
    "a mark that is not assigned": "e\U0001e6e3\u0323",
}


@pytest.mark.parametrize("odd", UNLIKE.values(), ids=UNLIKE)
def test_a_text_with_a_character_that_libraries_normalize_differently_has_the_ids_of_tokenizers(odd: str):
    library, texts = FAMILIES["qwen"](), ["a plain text", f"an {odd} text", "Åe\u0301 한\u1112\u1161\u11ab 中"]
    engine = open_engine(Tokenizer(library.to_str(), None))
    assert isinstance(engine, FastEngine)
    assert split(*engine.encode([text.encode() for text in texts])) == [library.encode(text).ids for text in texts]


def test_every_character_that_forms_something_with_others_has_the_ids_of_tokenizers():
    """Those with a combining class or a decomposition, by the tables of Python."""
    library = FAMILIES["qwen"]()
    engine = open_engine(Tokenizer(library.to_str(), None))
    characters = [
        character
        for character in map(chr, range(0x80, 0x20000))
        if unicodedata.combining(character) or unicodedata.decomposition(character)
    ]
    texts = [f"e\u0327{character}\u0302 x{unicodedata.normalize('NFD', character)}" for character in characters]
    assert split(*engine.encode([text.encode() for text in texts])) == [
        encoded.ids for encoded in library.encode_batch(texts)
    ]


def test_a_text_of_characters_that_are_alike_is_left_to_the_engine(monkeypatch: pytest.MonkeyPatch):
    engine = open_engine(Tokenizer(FAMILIES["qwen"]().to_str(), None))
    expected = engine.encode(texts := [PROSE.encode(), "é 中 한 ไ".encode()])
    monkeypatch.setattr(ReferenceEngine, "encode", lambda *_: pytest.fail("tokenizers was asked"))
    assert np.array_equal(engine.encode(texts)[0], expected[0])


def test_many_texts_at_once_are_the_texts_one_by_one(tokenizer: Tokenizer):
    engine = open_engine(tokenizer)
    texts = [(PROSE * (1 + number % 7))[number % 50 :].encode() for number in range(300)] + [b""]
    assert sum(map(len, texts)) > engines._SINGLE_BYTES
    ids, lengths = engine.encode(texts)
    assert ids.dtype == np.uint32
    assert split(ids, lengths) == [engine.encode([text])[0].tolist() for text in texts]


def test_special_tokens_in_a_text_are_text(tokenizer: Tokenizer):
    engine = open_engine(tokenizer)
    ids = engine.encode([b"a<|endoftext|>b"])[0].tolist()
    assert tokenizer.end_id not in ids
    assert tokenizer.decode(np.array(ids)) == "a<|endoftext|>b"


def test_threads_do_not_disturb_each_other(tokenizer: Tokenizer):
    engine = open_engine(tokenizer)
    texts = [[(PROSE * 30)[shift:].encode()] for shift in range(8)]
    alone = [engine.encode(text)[0].tolist() for text in texts]
    found: dict[int, list[int]] = {}

    def work(number):
        found[number] = engine.encode(texts[number])[0].tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(8)] == alone


def test_an_engine_that_differs_is_not_used(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FastEngine, "attempt", lambda *_: (np.array([1, 2, 3]), np.array([3])))
    open_engine.cache_clear()
    try:
        assert not isinstance(open_engine(tokenizer), FastEngine)
    finally:
        open_engine.cache_clear()


@pytest.mark.parametrize("added", [["x" * 100_000], [f"<{number}>" for number in range(20_000)]], ids=["long", "many"])
def test_added_tokens_beyond_what_can_be_compared_are_done_by_tokenizers(tokenizer: Tokenizer, added: list[str]):
    """Every beginning of a token is a probe: 5 GB of a token of 100 kB."""
    file = tokenizers.Tokenizer.from_str(tokenizer.json)
    file.add_tokens(added)
    assert not isinstance(open_engine(Tokenizer(file.to_str(), END)), FastEngine)


def test_the_engine_starts_afresh_when_it_remembers_too_much(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    resident = iter([0, 100, engines.MEMORY_BYTES, engines.MEMORY_BYTES + 101, 50, 60])
    monkeypatch.setattr(engines, "resident_bytes", lambda: next(resident))
    monkeypatch.setattr(engines, "_CHECK_BYTES", 1000)
    engine = FastEngine(tokenizer)
    made = []
    text = b"some text " * 60
    expected = engine.encode([text])[0].tolist()  # takes 0
    for _ in range(8):
        assert engine.encode([text])[0].tolist() == expected
        made.append(engine._local.instance)
    # Looked at with every other text: 100 and MEMORY_BYTES are within bounds of 0, the next is not; 50 starts anew.
    assert [made[0] is instance for instance in made] == [True] * 4 + [False] * 4


@pytest.fixture
def oracle(tokenizer: Tokenizer) -> ReferenceEngine:
    return ReferenceEngine(tokenizer)


def test_the_same_ids_are_no_difference(oracle: ReferenceEngine, tokenizer: Tokenizer):
    assert oracle.difference(PROSE.encode(), np.array(tokenizer.encode(PROSE), np.uint16)) is None
    assert oracle.difference(b"", np.array([], np.uint16)) is None


def test_a_difference_says_where_it_is(oracle: ReferenceEngine, tokenizer: Tokenizer):
    ids = np.array(tokenizer.encode(PROSE), np.uint16)
    wrong = ids.copy()
    wrong[7] += 1
    assert f"different from token 7 on: [{wrong[7]}, " in (oracle.difference(PROSE.encode(), wrong) or "")
    short = oracle.difference(PROSE.encode(), ids[:-1]) or ""
    assert f"{len(ids) - 1} ids against {len(ids)} of tokenizers" in short
    assert 'the text begins b"The quick' in short


def test_of_a_long_text_the_beginning_is_compared(oracle: ReferenceEngine, tokenizer: Tokenizer, monkeypatch):
    monkeypatch.setattr(engines, "CHECKED_BYTES", 100)
    monkeypatch.setattr(engines, "UNSURE", 3)
    ids = np.array(tokenizer.encode(PROSE), np.uint16)
    assert oracle.difference(PROSE.encode(), ids) is None
    compared = []
    for place in range(len(ids)):
        wrong = ids.copy()
        wrong[place] += 1
        compared.append(oracle.difference(PROSE.encode(), wrong) is not None)
    count = len(tokenizer.encode(PROSE[:96])) - 3
    assert compared == [True] * count + [False] * (len(ids) - count) or abs(sum(compared) - count) < 4
    assert oracle.difference(PROSE.encode(), ids[: count - 5])
