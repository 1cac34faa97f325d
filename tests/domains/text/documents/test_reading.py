from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.documents import reading
from outofcore.domains.text.documents.reading import LINES, Reader, Scout, division
from outofcore.domains.text.params import SourceSection
from outofcore.raw.files import RawFile

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


@given(data=DATA, separator=SEPARATORS, size=st.integers(1, 9))
def test_documents_are_the_same_however_the_stream_is_read(data, separator, size):
    divided = division(SourceSection(separator=separator))
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(reading, "BLOCK_BYTES", size)
        reader = Reader(io.BytesIO(data))
        found = []
        while reader.position < len(data):
            found.append(b"".join(reader.document(divided)))
    assert [document for document in found if document] == expected(data, separator)


def test_bytes_given_back_are_read_again():
    reader = Reader(io.BytesIO(b"0123456789"))
    assert reader.read(6) == b"012345"
    reader.give_back(b"345")
    assert reader.position == 3
    assert reader.read(2) == b"34"
    assert reader.read(9) == b"5"
    assert reader.read(9) == b"6789"
    assert reader.read(9) == b""


def test_a_scout_goes_on_through_an_archive(tmp_path: Path):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for number in range(4):
            content = f"member {number} ".encode() * 1000
            entry = tarfile.TarInfo(f"{number}.txt")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    file = RawFile("a.tar.gz", path, path.stat().st_size)
    with Scout([file], (".txt",)) as scout:
        assert scout.at(0, 1, 9).read(8) == b"member 1"
        assert scout.at(0, 1, 90).read(8) == b"member 1"
        assert scout.at(0, 3, 0).read(8) == b"member 3"
        with pytest.raises(AssertionError, match="expected to read on at byte 3, is at 8"):
            scout.at(0, 3, 3)
        with pytest.raises(AssertionError, match="expected to read on at byte 99999"):
            scout.at(0, 3, 99_999)
