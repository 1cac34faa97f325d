"""Errors of the system, as the system and libraries raise them, against damage of a file."""

from __future__ import annotations

import errno
import io
import sys
from pathlib import Path

import h5py
import pytest

from outofcore.system.failures import NamedFile, raise_if_of_system


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ENOENT, errno.EMFILE, errno.ESTALE])
def test_an_error_with_the_number_of_a_fault_of_the_system_is_raised(number: int) -> None:
    error = OSError(number, "text", "a.h5")
    with pytest.raises(OSError, match="text") as told:
        raise_if_of_system(error)
    assert told.value is error


@pytest.mark.parametrize(
    "error",
    [
        OSError("not a gzip file"),
        OSError(errno.EINVAL, "a place before the beginning"),
        OSError(errno.EISDIR, "a folder"),
        ValueError("errno = 5"),
        RuntimeError("unable to read: name = 'a.h5', errno = 0, error message = 'Success'"),
    ],
    ids=repr,
)
def test_what_content_causes_is_left_to_the_caller(error: Exception) -> None:
    raise_if_of_system(error)


def test_the_number_in_a_text_of_hdf5_is_that_of_the_system(tmp_path: Path) -> None:
    absent = tmp_path / "absent.h5"
    with pytest.raises(OSError, match="unable to open file") as told:
        h5py.File(absent, "r")
    with pytest.raises(FileNotFoundError) as raised:
        raise_if_of_system(RuntimeError(str(told.value).partition("]")[2]))
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(absent))


@pytest.mark.skipif(sys.platform != "linux", reason="a file of Linux whose first byte cannot be read")
@pytest.mark.parametrize("size", [1, -1])
def test_a_file_remembers_an_error_under_its_name(size: int) -> None:
    file = NamedFile("/proc/self/mem")
    with io.BufferedReader(file) as stream, pytest.raises(OSError, match="Input/output error"):
        stream.read(size)
    assert file.trouble is not None
    assert (file.trouble.errno, file.trouble.filename) == (errno.EIO, "/proc/self/mem")
