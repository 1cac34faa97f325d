from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.documents.division import LINES, division
from outofcore.domains.text.params import SourceSection

SEPARATORS = st.sampled_from(["\n\n", "\n", "aba", "<|end|>", "\n---\n", "ab", "\r\n\r\n", "aa"])
DATA = st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r", b"\r\n", b"---", b"<|end|>", b"x"]), max_size=30).map(
    b"".join
)


def expected(data: bytes, separator: str, newlines: str) -> list[bytes]:
    if newlines == "keep":
        return [piece for piece in data.split(separator.encode()) if piece]
    pattern = "".join(
        "(?:\r\n|\r(?!\n)|\n)" if character == "\n" else re.escape(character)
        for character in separator.replace("\r\n", "\n")
    )
    return [piece for piece in re.split(pattern.encode(), data) if piece]


@given(data=DATA, separator=SEPARATORS, newlines=st.sampled_from(["keep", "lf"]))
def test_pieces_are_those_of_a_split(data, separator, newlines):
    divided = division(SourceSection(separator=separator, newlines=newlines))
    assert divided is not None
    assert [data[start:stop] for start, stop in divided.split(data)] == expected(data, separator, newlines)


@given(data=DATA, more=DATA, separator=SEPARATORS, newlines=st.sampled_from(["keep", "lf"]))
def test_what_comes_later_moves_no_separator_that_was_found(data, more, separator, newlines):
    divided = division(SourceSection(separator=separator, newlines=newlines))
    assert divided is not None
    end = divided.end_of_last(data, last=False)
    whole = expected(data + more, separator, newlines)
    if end:
        assert expected(data[:end], separator, newlines) + expected(data[end:] + more, separator, newlines) == whole
    else:
        found = divided.next(data + more, 0, last=True)
        assert found is None or found[1] >= len(data)


def test_a_file_is_one_document_by_default_and_a_line_ends_with_lf():
    assert division(SourceSection()) is None
    assert LINES.split(b"a\n\nb\r\nc") == [(0, 1), (3, 5), (6, 7)]
