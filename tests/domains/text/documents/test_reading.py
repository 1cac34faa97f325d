from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.documents.reading import LINES, Reader, division, parts_of
from outofcore.domains.text.params import SourceSection

SEPARATORS = st.sampled_from(["\n\n", "\n", "aba", "<|end|>", "\n---\n", "ab", "\r\n\r\n", "aa"])
DATA = st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r", b"\r\n", b"---", b"<|end|>", b"x"]), max_size=30).map(
    b"".join
)


def expected(data: bytes, separator: str) -> list[bytes]:
    return [piece for piece in data.split(separator.encode()) if piece]


@given(data=DATA, more=DATA, separator=SEPARATORS)
def test_what_comes_later_moves_no_separator_that_was_found(data, more, separator):
    divided = division(SourceSection(separator=separator))
    assert divided is not None
    assert [data[start:stop] for start, stop in divided.split(data)] == expected(data, separator)
    end = divided.end_of_last(data)
    whole = expected(data + more, separator)
    assert expected(data[:end], separator) + expected(data[end:] + more, separator) == whole
    assert separator.encode() not in data[end:]


def test_a_file_is_one_document_by_default_and_a_line_ends_with_lf():
    assert division(SourceSection()) is None
    assert LINES.split(b"a\n\nb\r\nc") == [(0, 1), (3, 5), (6, 7)]


@given(text=st.lists(st.sampled_from(["a", "\n", "\r\n", " ", "\n\n", "é", "中", "😀"]), max_size=80).map("".join))
def test_a_text_is_divided_between_characters_into_bounded_parts(text):
    data = text.encode()
    parts = [data[start:stop] for start, stop in parts_of(data, 16)]
    assert b"".join(parts) == data
    assert all(len(part) <= 16 for part in parts)
    assert all(len(part) > 4 for part in parts[:-1])
    for part in parts:
        part.decode()


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("one line\ntwo\n\nthree\nfour five", "one line\ntwo\n\n"),
        ("one line\r\ntwo\r\n\r\nthree four", "one line\r\ntwo\r\n\r\n"),
        ("one line and more\nthree four five", "one line and more\n"),
        ("one line and more three four five", "one line and more"),
        ("x" * 40, "x" * 20),
        ("é" * 20, "é" * 10),
        ("one\nline and more three four five", "one\nline and more"),
    ],
)
def test_a_blank_line_is_best_then_a_line_then_a_word(text, first):
    data = text.encode()
    start, stop = parts_of(data, 20)[0]
    assert data[start:stop].decode() == first


def test_bytes_given_back_are_read_again():
    reader = Reader(io.BytesIO(b"0123456789"))
    assert reader.read(6) == b"012345"
    reader.give_back(b"345")
    assert reader.offset == 3
    assert reader.read(2) == b"34"
    assert reader.read(9) == b"5"
    assert reader.read(9) == b"6789"
    assert reader.read(9) == b""
