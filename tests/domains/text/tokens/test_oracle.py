from __future__ import annotations

import numpy as np
import pytest

from outofcore.domains.text.tokens import oracle as oracles
from outofcore.domains.text.tokens.engine import open_engine
from outofcore.domains.text.tokens.oracle import Oracle
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from tests.domains.text.conftest import PROSE


@pytest.fixture
def oracle(tokenizer: Tokenizer) -> Oracle:
    return Oracle(tokenizer, open_engine(tokenizer))


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
    monkeypatch.setattr(oracles, "CUT_BYTES", 100)
    ids = np.array(tokenizer.encode(PROSE), np.uint16)
    assert oracle.difference(PROSE.encode(), ids) is None
    ids[5] += 1
    assert oracle.difference(PROSE.encode(), ids)
    ids[5] -= 1
    ids[-1] += 1
    assert oracle.difference(PROSE.encode(), ids) is None
    assert 50 < oracle.reach(PROSE.encode()) <= 100


def test_a_text_without_a_safe_cut_is_compared_whole_unless_it_is_very_long(oracle: Oracle, monkeypatch):
    monkeypatch.setattr(oracles, "CUT_BYTES", 100)
    monkeypatch.setattr(oracles, "WHOLE_BYTES", 200)
    assert oracle.reach(b"x" * 100) == 100
    assert oracle.reach(b"x" * 200) == 200
    assert oracle.reach(b"x" * 201) == 0
    late = b"x" * 150 + b" some words" * 9
    assert 150 <= oracle.reach(late) <= 200


def test_a_piece_is_compared_with_what_stands_before_it(oracle: Oracle, tokenizer: Tokenizer):
    safe, unsafe = PROSE.index(" brown"), PROSE.index("own fox")
    for cut, same in ((safe, True), (unsafe, False)):
        before, piece = PROSE[:cut], PROSE[cut:]
        ids = np.array(tokenizer.encode(piece), np.uint16)
        assert (oracle.difference(piece.encode(), ids, before.encode()) is None) == same
