from __future__ import annotations

import numpy as np
import pytest

from outofcore.domains.text.tokens import oracle as oracles
from outofcore.domains.text.tokens.oracle import Oracle
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from tests.domains.text.conftest import PROSE


@pytest.fixture
def oracle(tokenizer: Tokenizer) -> Oracle:
    return Oracle(tokenizer)


def test_the_same_ids_are_no_difference(oracle: Oracle, tokenizer: Tokenizer):
    assert oracle.difference(PROSE.encode(), np.array(tokenizer.encode(PROSE), np.uint16)) is None
    assert oracle.difference(b"", np.array([], np.uint16)) is None


def test_a_difference_says_where_it_is(oracle: Oracle, tokenizer: Tokenizer):
    ids = np.array(tokenizer.encode(PROSE), np.uint16)
    wrong = ids.copy()
    wrong[7] += 1
    assert f"different from token 7 on: [{wrong[7]}, " in (oracle.difference(PROSE.encode(), wrong) or "")
    short = oracle.difference(PROSE.encode(), ids[:-1]) or ""
    assert f"{len(ids) - 1} ids against {len(ids)} of tokenizers" in short
    assert 'the text begins b"The quick' in short


def test_of_a_long_text_the_beginning_is_compared(oracle: Oracle, tokenizer: Tokenizer, monkeypatch):
    monkeypatch.setattr(oracles, "MOST_BYTES", 100)
    monkeypatch.setattr(oracles, "UNSURE", 3)
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
