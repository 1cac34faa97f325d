from __future__ import annotations

import gzip

import numpy as np
import pytest

from outofcore.domains.neural.recordings.folder import FolderRecording, text_column
from outofcore.domains.neural.recordings.recording import SessionError, find_array, matching


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("0 1.5\n50 2\n", 1, [1.5, 2]),
        ("# a comment\n\n 1\n2 # here too\n", 0, [1, 2]),
        ("time,value\n1,2\n3,\n", 1, [2, np.nan]),
        ("1;2\n3;x", 1, [2, np.nan]),
        ("a\tb\r\n1\t2\r\n", 0, [1]),
        ("1\n2\n", 3, [np.nan, np.nan]),
        ("nan\n1\n", 0, [np.nan, 1]),
        ("", 0, []),
    ],
)
def test_columns_of_text(tmp_path, text, column, expected):
    (tmp_path / "a.txt").write_text(text)
    array = text_column(tmp_path / "a.txt", column)
    assert array.shape == (len(expected),)
    np.testing.assert_array_equal(array.read(0, len(expected)), expected)


def test_long_and_compressed_text(tmp_path):
    values = np.arange(120_000)
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.writelines(f"{value} {value / 2}\n" for value in values)
    array = text_column(tmp_path / "a.txt.gz", 1)
    assert array.shape == (120_000,)
    assert np.array_equal(array.read(100_000, 100_010), values[100_000:100_010] / 2)
    (tmp_path / "a.txt.gz").write_bytes((tmp_path / "a.txt.gz").read_bytes()[:-3000])
    with pytest.raises(SessionError, match="damaged"):
        text_column(tmp_path / "a.txt.gz", 1)


def test_a_pattern_stands_for_trials(tmp_path):
    (tmp_path / "data" / "stim").mkdir(parents=True)
    for number, length in {0: 3, 2: 1, 10: 4}.items():
        np.save(tmp_path / "data" / "stim" / f"{number}.npy", np.full((length, 2), number))
    files = tuple(sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.npy")))
    recording = FolderRecording(tmp_path, files)
    assert matching(recording, "data/stim/*") == ["data/stim/0", "data/stim/2", "data/stim/10"]
    array = find_array(recording, "stimulus", "data/stim/*")
    assert array.starts.tolist() == [0, 3, 4, 8]
    assert array.read(2, 6)[:, 0].tolist() == [0, 2, 10, 10]
    assert not recording.streamed
    with pytest.raises(SessionError, match="no such array; there are"):
        find_array(recording, "stimulus", "data/robs/*")
