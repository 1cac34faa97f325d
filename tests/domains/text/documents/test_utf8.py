from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.documents import utf8
from outofcore.domains.text.documents.utf8 import characters, first_wrong_byte, whole_characters

BYTES = st.lists(
    st.one_of(st.sampled_from([b"a", "é".encode(), "中".encode(), "😀".encode()]), st.binary(max_size=4))
).map(b"".join)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    places = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:stop] for start, stop in pairwise(places)]


@given(data=BYTES, places=st.lists(st.integers(0, 200)))
def test_the_first_wrong_byte_is_found_wherever_a_text_is_cut(data, places):
    parts = list(whole_characters(cut(data, places)))
    assert b"".join(parts) == data
    assert all(parts)
    try:
        data.decode()
        expected = -1
    except UnicodeDecodeError as error:
        expected = error.start
    assert first_wrong_byte(data) == expected
    seen = 0
    for part in parts:
        if (wrong := first_wrong_byte(part)) >= 0:
            assert seen + wrong == expected
            return
        seen += len(part)
    assert expected == -1


@given(data=BYTES)
def test_long_texts_are_valid_where_short_ones_are(data):
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(utf8, "_FEW_BYTES", 0)
        at_once = first_wrong_byte(data)
    assert at_once == first_wrong_byte(data)


@given(text=st.text())
def test_characters_are_code_points(text):
    data = text.encode(errors="replace")
    assert characters(data) == len(data.decode())
