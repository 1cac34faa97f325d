from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.documents import utf8
from outofcore.domains.text.documents.utf8 import first_wrong_byte

BYTES = st.lists(
    st.one_of(st.sampled_from([b"a", "é".encode(), "中".encode(), "😀".encode()]), st.binary(max_size=4))
).map(b"".join)


@given(data=BYTES)
def test_the_first_wrong_byte_is_where_decoding_stops(data):
    try:
        data.decode()
        expected = -1
    except UnicodeDecodeError as error:
        expected = error.start
    assert first_wrong_byte(data) == expected


@given(data=BYTES)
def test_long_texts_are_valid_where_short_ones_are(data):
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(utf8, "_FEW_BYTES", 0)
        at_once = first_wrong_byte(data)
    assert at_once == first_wrong_byte(data)
