"""A file that DVC has linked into its cache is replaced, never written into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outofcore.replacing import replace_file, replace_text


@pytest.fixture
def linked(tmp_path: Path) -> tuple[Path, Path]:
    """A file of the workspace, and the object of the cache that it is."""
    path, cached = tmp_path / "file", tmp_path / "cached"
    cached.write_text("before")
    cached.chmod(0o444)
    os.link(cached, path)
    return path, cached


def test_what_is_linked_stays_as_it_is(linked: tuple[Path, Path]) -> None:
    path, cached = linked
    replace_text(path, "after\n")
    assert (path.read_bytes(), cached.read_text()) == (b"after\n", "before")


def test_a_write_that_fails_leaves_the_old_file_alone(linked: tuple[Path, Path], tmp_path: Path) -> None:
    path, _ = linked

    def fail(new: Path) -> None:
        new.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace_file(path, fail)
    assert path.read_text() == "before"
    assert {each.name for each in tmp_path.iterdir()} == {"file", "cached"}
