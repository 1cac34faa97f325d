from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.documents.cleaning import InvalidText, blocks, characters, clean
from outofcore.domains.text.params import SourceSection

BYTES = st.lists(
    st.one_of(
        st.sampled_from([b"\r", b"\n", b"\r\n", b"a", "é".encode(), "中".encode(), "😀".encode()]),
        st.binary(max_size=4),
    )
).map(b"".join)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    places = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:stop] for start, stop in pairwise(places)]


@given(data=BYTES, places=st.lists(st.integers(0, 200)))
def test_blocks_are_the_text_and_clean_block_by_block(data, places):
    parts = list(blocks(cut(data, places)))
    assert b"".join(parts) == data
    assert all(parts)
    for newlines in ("keep", "lf"):
        source = SourceSection(newlines=newlines, invalid_utf8="replace")
        whole = clean(data, source)
        cleaned = [clean(part, source) for part in parts]
        assert b"".join(part.text for part in cleaned) == whole.text
        assert any(part.replaced for part in cleaned) == whole.replaced
        assert sum(part.carriage_returns for part in cleaned) == whole.carriage_returns


@given(data=BYTES)
def test_replacing_is_what_python_does(data):
    source = SourceSection(invalid_utf8="replace", newlines="lf")
    assert clean(data, source).text.decode() == data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def wrong_byte(parts: list[bytes]) -> int | None:
    seen = 0
    for part in parts:
        try:
            clean(part, SourceSection())
        except InvalidText as error:
            return seen + error.position
        seen += len(part)
    return None


@given(data=BYTES, places=st.lists(st.integers(0, 200)))
def test_rejecting_names_the_first_wrong_byte(data, places):
    try:
        data.decode()
        expected = None
    except UnicodeDecodeError as error:
        expected = error.start
    assert wrong_byte([data]) == expected
    assert wrong_byte(list(blocks(cut(data, places)))) == expected


@given(text=st.text())
def test_characters_are_code_points(text):
    data = text.encode(errors="replace")
    assert characters(data) == len(data.decode())
