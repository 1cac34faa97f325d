from __future__ import annotations

import itertools
import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from outofcore.domains.text.tokens.cuts import EXPRESSIONS, PUNCTUATION, WINDOW_BYTES, Cutter, at_character, cuttable
from outofcore.domains.text.tokens.engine import ReferenceEngine
from outofcore.domains.text.tokens.tokenizer import Tokenizer

SPLITTERS = {name: pre_tokenizers.Split(Regex(text), "isolated") for name, text in EXPRESSIONS.items()}
SPLITTERS["byte level"] = pre_tokenizers.ByteLevel(add_prefix_space=False)

# One or two of each class of characters that the expressions tell apart, and of each that libraries disagree about.
CLASSES = "aAſ中\u0301s1² \n\r\t\u00a0\u3000\u0085\x1c\u200b'’./\u3002😀\x00\ufeff"
HOSTILE = st.text(
    st.one_of(
        st.sampled_from("    \n\n\r\t'’.,!/-_()“”。，sStTmMdDlLvVrReE019aZ"),
        st.sampled_from(CLASSES + "\u180e\u2028ⅧǅʰéÅ한ไท\U0001f468\u200d\u20e3"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)


def cuts_of(text: str) -> list[int]:
    """All cuts that the rule allows, as character positions, from the last to the first."""
    cutter = Cutter(lambda _: [], safe=True)
    data, found, high = text.encode(), [], len(text.encode())
    while high > 0 and (cut := cutter.last(data, 0, high)) is not None:
        found.append(len(data[:cut].decode()))
        high = cut - 1
    return found


@pytest.mark.parametrize("name", SPLITTERS)
@settings(max_examples=300, deadline=None)
@given(text=HOSTILE)
def test_a_cut_changes_no_pre_token(name, text):
    splitter = SPLITTERS[name]
    whole = [piece for piece, _ in splitter.pre_tokenize_str(text)]
    for cut in cuts_of(text):
        parts = [piece for part in (text[:cut], text[cut:]) for piece, _ in splitter.pre_tokenize_str(part)]
        assert parts == whole, cut


@pytest.mark.parametrize("name", SPLITTERS)
def test_the_rule_holds_in_every_short_context(name):
    """Every string of four characters, one for each class: the contexts that the argument is about."""
    splitter = SPLITTERS[name]
    for characters in itertools.product(CLASSES[:1] + CLASSES[1:13:2] + " \n'.", repeat=4):
        text = "".join(characters)
        cuts = cuts_of(text)
        if cuts:
            whole = [piece for piece, _ in splitter.pre_tokenize_str(text)]
            for cut in cuts:
                parts = [piece for part in (text[:cut], text[cut:]) for piece, _ in splitter.pre_tokenize_str(part)]
                assert parts == whole, (text, cut)


def test_the_usual_rules_are_not_among_the_cuts():
    assert cuts_of("a.\n\nb") == [1]  # not after a blank line
    assert cuts_of("a  b") == [1]  # not between two spaces
    assert cuts_of("it's") == []
    assert cuts_of("one, two") == [4, 3]
    assert cuts_of("春眠不觉晓，处处") == [5]


def test_a_cut_leaves_what_stands_beyond_it_to_the_next():
    cutter = Cutter(lambda _: [], safe=True)
    text = b"aaaa bbbb cccc"
    assert cutter.last(text, 0, 9) == 9
    assert cutter.last(text, 0, 8) == 4
    assert cutter.last(text, 4, 8) is None
    assert cutter.last(b"x" * 100_000, 0, 100_000) is None
    assert cutter.last(b"x y" + b"z" * 100_000, 0, 100_000) == 1


@settings(max_examples=200, deadline=None)
@given(text=HOSTILE, low=st.integers(0, 40), high=st.integers(0, 80))
def test_the_last_cut_is_found_however_far_back_it_lies(text, low, high):
    filled = text + "é" * 3000 + text
    data = filled.encode()
    allowed = [len(filled[:cut].encode()) for cut in cuts_of(filled)]
    high = min(high + len(data) - 90, len(data)) if len(text) % 2 else min(high, len(data))
    expected = max((cut for cut in allowed if low < cut <= high), default=None)
    assert Cutter(lambda _: [], safe=True).last(data, low, high) == expected


def test_a_cut_through_a_token_of_the_users_own_is_refused(tokenizer: Tokenizer):
    own = tokenizers.Tokenizer.from_str(tokenizer.json)
    own.add_tokens(["<my token>"])
    reference = ReferenceEngine(Tokenizer(own.to_str(), None))
    assert cuttable(json.loads(own.to_str()))
    cutter = Cutter(reference.ids, safe=True)
    text = b"say<my token>,x"
    assert cuts_of(text.decode()) == [12, 6, 3]
    assert cutter.last(text, 0, len(text)) == 3


def test_which_tokenizers_have_known_cuts(tokenizer: Tokenizer):
    known = json.loads(tokenizer.plain)
    assert cuttable(known)
    split = {"type": "Split", "pattern": {"Regex": EXPRESSIONS["cl100k"]}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    assert cuttable(known | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}})
    strange = split | {"pattern": {"Regex": r"\p{L}+|."}}
    assert not cuttable(known | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [strange, level]}})
    assert not cuttable(known | {"pre_tokenizer": None})
    assert not cuttable(known | {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}})
    assert not cuttable(known | {"pre_tokenizer": known["pre_tokenizer"] | {"add_prefix_space": True}})
    assert not cuttable(known | {"normalizer": {"type": "Lowercase"}})
    assert not cuttable(known | {"model": known["model"] | {"dropout": 0.1}})
    assert not cuttable(known | {"model": known["model"] | {"type": "Unigram"}})
    long = {"id": 1000, "content": "x" * WINDOW_BYTES, "special": False}
    assert not cuttable(known | {"added_tokens": [long]})
    assert Cutter(lambda _: [], safe=False).last(b"one two", 0, 7) is None


def test_listed_punctuation_is_no_letter_number_mark_or_apostrophe():
    word = pre_tokenizers.Split(Regex(r"[\p{L}\p{N}\p{M}\s'’]"), "removed")
    assert "".join(piece for piece, _ in word.pre_tokenize_str(PUNCTUATION)) == PUNCTUATION


def test_a_character_begins_at_or_before_a_place():
    text = "a\u00e9\u20ac\U0001f600".encode()
    assert [at_character(text, place) for place in range(len(text) + 1)] == [0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10]
    assert at_character(text[2:], 0) == 0
    assert at_character(text[:-1], len(text) - 1) == len(text) - 1
