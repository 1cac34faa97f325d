from __future__ import annotations

import bz2
import gzip
import lzma

import numpy as np
import pytest

from outofcore.domains.neural.recordings.arrays import SessionError
from outofcore.domains.neural.recordings.folder import FolderRecording, text_array
from outofcore.errors import RawInputError
from tests.domains.neural.rig import convert


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("0 1.5\n50 2\n", 1, [1.5, 2]),
        ("# a comment\n\n 1\n2 # here too\n", 0, [1, 2]),
        ("time,value\n1,2\n3,\n", 1, [2, np.nan]),
        ("1;2\n3;x", 1, [2, np.nan]),
        ("a\tb\r\n1\t2\r\n", 0, [1]),
        ("nan\n1\n", 0, [np.nan, 1]),
        ("", 0, []),
        ("", None, []),
        ("spikes of cell 3, in ms\n1\n2.5\n", None, [1, 2.5]),
        ("time\n1\n2\n", None, [1, 2]),
        ("1\n2\nx\n4\n", None, [1, 2, np.nan, 4]),
        ("NA\n2\n-\n4\n", None, [np.nan, 2, np.nan, 4]),
        ("lost\n2\nlost\n4\n", None, [np.nan, 2, np.nan, 4]),
        ("NA,1\n2,3\n", 1, [1, 3]),
        ("NA,NA\n2,3\n", 1, [np.nan, 3]),
    ],
)
def test_columns_of_text(tmp_path, text, column, expected):
    (tmp_path / "a.txt").write_text(text)
    array = text_array(tmp_path / "a.txt", column)
    assert array.shape == (len(expected),)
    np.testing.assert_array_equal(array.read(0, len(expected)), expected)


def test_columns_of_text_by_their_titles(tmp_path):
    (tmp_path / "run.csv").write_text('\ufeff"time", speed ,gain\n# a comment\n1,5.5,7\n2,6.5,8\n', encoding="utf-8")
    recording = FolderRecording(tmp_path, ("run.csv",))
    for name, expected in {"time": [1, 2], "speed": [5.5, 6.5], "2": [7, 8], "gain": [7, 8], "0": [1, 2]}.items():
        assert recording.array(f"run.csv[{name}]").read(0, 2).tolist() == expected
    with pytest.raises(SessionError, match="expected one column 'pace', its first line has time, speed, gain"):
        recording.array("run.csv[pace]")


@pytest.mark.parametrize("field", ["stimulus", "responses", "behavior", "valid", "trial", "repeat", "column"])
@pytest.mark.parametrize("column", ["-1", "0:2", "speed", "3", "1,2"])
def test_a_column_that_is_no_number_or_not_there_is_refused_in_one_line(tmp_path, field, column):
    for name, shape in {"stim": (60, 3, 3), "robs": (60, 4), "x": (60, 3)}.items():
        np.save(tmp_path / f"{name}.npy", np.ones(shape, np.uint8))
    names = {"stimulus": "stim", "responses": "robs"}
    settings = {"units": [{"column": f"x[{column}]"}]} if field == "column" else {}
    names |= {} if field == "column" else {field: f"x[{column}]"}
    with pytest.raises(RawInputError, match=r"no session can be converted: \w+.npy: .*number of a column.*\(60, 3\)"):
        convert(tmp_path, names=names, trial_bins=30, **settings)


@pytest.mark.parametrize("title", ["speed", "10.5", "nan", "-1"])
def test_a_title_may_read_as_a_number(tmp_path, title):
    (tmp_path / "w.csv").write_text(f"t,{title}\n0,\n1,2\n")  # a first value that is missing is no second header
    array = FolderRecording(tmp_path, ("w.csv",)).array(f"w.csv[{title}]")
    np.testing.assert_array_equal(array.read(0, array.shape[0]), [np.nan, 2])


@pytest.mark.parametrize(
    "text",
    [
        "1,2,3\n4,x,6\n7,8,9\n",
        "a,b,c\n1,2,3\n4,,6\n7,8,9",
        "cell 0;cell 1;cell 2\n1;2;3\n4;nan;6\n7;8;9\n",
        "# a comment\n  1   2 3 \r\n4 NaN 6\r\n\r\n7 8 9\r\n",
        "one two three\n1 2 3\n4 - 6 # here too\n7 8 9",
        "1\t2\t3\t\n4\t\t6\n7\t8\t9\n",
        "three cells that fired\n1 2 3\n4 - 6\n7 8 9",
    ],
)
def test_tables_of_text(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    array = text_array(tmp_path / "a.txt", None)
    assert array.shape == (3, 3)
    np.testing.assert_array_equal(array.read(0, 3), [[1, 2, 3], [4, np.nan, 6], [7, 8, 9]])
    column = text_array(tmp_path / "a.txt", 2)
    assert column.read(0, 3).tolist() == [3, 6, 9]


@pytest.mark.parametrize(
    ("text", "column", "axis", "words"),
    [
        ("1\n2\n", 3, 0, "no column 3, lines have 1"),
        ("1,2\n3,4\n5,6\n", 2, 0, "no column 2, lines have 2"),
        ("a,1\n3,4\n", None, 0, "its first line has titles and numbers"),
        (",0,1\n0,3,4\n1,4,5\n", None, 0, "its first line has titles and numbers"),
        ("1,2\n3\n", None, 0, "expected 2 entries in each line, as in the first, got '3'"),
        ("1\n2 3\n", None, 0, "expected 1 entries in each line"),
        ("cell,rate\n-,Hz\n1,2\n3,4\n", "rate", 0, r"its second line has no number either \(-, Hz\)"),
        ("a,b\nHz,mV\n1,2\n3,4\n", None, 0, r"its second line has no number either \(Hz, mV\): leave it out"),
        ("a,b\nHz,mV\n1,2\n3,4\n", "b", 0, r"its second line has no number either \(Hz, mV\): leave it out"),
        ("a;b\n0,5;1,5\n1,5;2,5\n", None, 0, "column 1 has no number, but '5;1'; name .* decimals with a point"),
        ("0,5 1,5\n1,5 2,5\n", 1, 0, "its first line has titles and numbers"),
        ("left,1\nright,2\nleft,3\n", None, 0, "column 0 has no number, but 'left'"),
        ("left,1\nright,2\nleft,3\n", 0, 0, "column 0 has no number, but 'left'"),
    ],
)
def test_what_a_text_cannot_be_is_refused_with_its_shape(tmp_path, text, column, axis, words):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(SessionError, match=words):
        text_array(tmp_path / "a.csv", column, axis)


def test_long_and_compressed_text(tmp_path):
    values = np.arange(120_000)
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.writelines(f"{value} {value / 2}\n" for value in values)
    array = text_array(tmp_path / "a.txt.gz", 1)
    assert array.shape == (120_000,)
    assert np.array_equal(array.read(100_000, 100_010), values[100_000:100_010] / 2)
    (tmp_path / "a.txt.gz").write_bytes((tmp_path / "a.txt.gz").read_bytes()[:-3000])
    with pytest.raises(SessionError, match="damaged"):
        text_array(tmp_path / "a.txt.gz", 1)


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)])
def test_a_damaged_compressed_text_is_one_session(tmp_path, suffix, compress):
    whole = bytearray(compress(b"1 2\n" * 20_000))
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / f"a.txt.{suffix}").write_bytes(whole)
    with pytest.raises(SessionError, match=r"a\.txt"):
        text_array(tmp_path / f"a.txt.{suffix}", None).read(0, 20_000)
