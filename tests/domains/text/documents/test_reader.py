from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.text.documents import reader as readers
from outofcore.domains.text.documents.division import division
from outofcore.domains.text.documents.reader import Reader, Scout
from outofcore.domains.text.params import SourceSection
from outofcore.raw.files import RawFile
from tests.domains.text.documents.test_division import DATA, SEPARATORS, expected


@given(data=DATA, separator=SEPARATORS, newlines=st.sampled_from(["keep", "lf"]), size=st.integers(1, 9))
def test_documents_are_the_same_however_the_stream_is_read(data, separator, newlines, size):
    divided = division(SourceSection(separator=separator, newlines=newlines))
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(readers, "BLOCK_BYTES", size)
        reader = Reader(io.BytesIO(data))
        found = []
        while reader.position < len(data):
            found.append(b"".join(reader.document(divided)))
    assert [document for document in found if document] == expected(data, separator, newlines)


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
    with Scout(file, (".txt",)) as scout:
        assert scout.at(1, 9).read(8) == b"member 1"
        assert scout.at(1, 90).read(8) == b"member 1"
        assert scout.at(3, 0).read(8) == b"member 3"
        with pytest.raises(AssertionError, match="expected to read on at byte 3, stands at 8"):
            scout.at(3, 3)
        with pytest.raises(AssertionError, match="expected to read on at byte 99999"):
            scout.at(3, 99_999)
