"""The bound of what a normalizer makes of a text, against what ``tokenizers`` makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, normalizers

from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.normalizer import MOST_GROWTH, most_growth
from outofcore.domains.text.tokens.tokenizer import EncodingError, Tokenizer, load_tokenizer, reporting_panics
from outofcore.errors import ParamsError
from tests.domains.text.families import FAMILIES

TEXTS = st.text("abc é中", max_size=6)
STEPS = st.one_of(
    st.builds(normalizers.Replace, TEXTS, TEXTS),
    st.builds(lambda pattern, content: normalizers.Replace(Regex(pattern), content), st.sampled_from("ab."), TEXTS),
    st.builds(lambda content: normalizers.Replace(Regex("b*"), content), TEXTS),
    st.builds(normalizers.Prepend, TEXTS),
    st.sampled_from([normalizers.Lowercase(), normalizers.NFC(), normalizers.Strip()]),
)


def definition(normalizer: normalizers.Normalizer, tokenizer: Tokenizer) -> str:
    file = tokenizers.Tokenizer.from_str(tokenizer.json)
    file.normalizer = normalizer
    return file.to_str()


@given(steps=st.lists(STEPS, max_size=4), text=st.text("abc é中", min_size=1, max_size=20))
def test_no_normalizer_makes_more_than_its_bound(steps, text, tokenizer: Tokenizer):
    nested = normalizers.Sequence([*steps[:1], normalizers.Sequence(steps[1:])])
    bound = most_growth(json.loads(definition(nested, tokenizer))["normalizer"])
    try:
        with reporting_panics(text):
            normalized = nested.normalize_str(text)
    except EncodingError:  # the library fails, as with some empty patterns
        return
    # An empty pattern also matches at the end of a text.
    assert len(normalized.encode()) <= bound * (len(text.encode()) + 1)


@pytest.mark.parametrize(
    "steps",
    [
        [normalizers.Replace("e", "f" * 10**6)],
        [normalizers.Replace("e", "f" * 20), normalizers.Replace("f", "g" * 20)],
        [normalizers.Replace("e", "ee")] * 30,
        [normalizers.Lowercase(), normalizers.Replace(Regex("x*"), "y" * 40)],
        [normalizers.Prepend("p" * 10**6)],
    ],
)
def test_a_normalizer_that_multiplies_a_text_is_refused(steps, tokenizer: Tokenizer, tmp_path: Path):
    """A thousand letters became a gigabyte, of which the library takes 17."""
    (tmp_path / "tokenizer.json").write_text(definition(normalizers.Sequence(steps), tokenizer))
    section = TextSection.model_validate({"raw": "raw", "tokenizer": {"path": str(tmp_path)}})
    with pytest.raises(ParamsError, match=rf"a normalizer that makes at most {MOST_GROWTH} bytes of one, got one"):
        load_tokenizer(section)


IN_USE = {
    "GPT-2 with lower case": normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    ),
    "ALBERT": normalizers.Sequence(
        [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.Replace(Regex(" {2,}"), "▁")]
    ),
    "a name for the end of a line": normalizers.Replace("\n", "<|newline|>"),
    **{name: family().normalizer for name, family in FAMILIES.items() if family().normalizer is not None},
}


@pytest.mark.parametrize("name", IN_USE)
def test_normalizers_in_use_are_taken(name: str, tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text(definition(IN_USE[name], tokenizer))
    load_tokenizer(TextSection.model_validate({"raw": "raw", "tokenizer": {"path": str(tmp_path)}}))
