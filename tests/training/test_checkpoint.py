"""What is no checkpoint of this package is refused in one line, and left where it is."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest
import torch

from outofcore.errors import StateError, StoreError
from outofcore.training.checkpoint import Checkpoint, Progress, write_saved


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    progress = Progress(
        3, [{"step": 0, "ranks": 1}], {"epoch": 1}, [(2, {"train/loss": 0.5})], 1.5, 8.0, 2, {"n": torch.tensor(3.0)}
    )
    saved = Checkpoint("run", {"code": "1"}, {"weight": torch.ones(2)}, {"state": {}}, progress)
    saved.save(tmp_path / "new" / "checkpoint.pt")
    loaded = Checkpoint.load(tmp_path / "new" / "checkpoint.pt")
    assert loaded is not None
    assert torch.equal(loaded.model["weight"], torch.ones(2))
    assert (loaded.identity, loaded.code) == ("run", {"code": "1"})
    assert (loaded.optimizer, loaded.progress) == ({"state": {}}, progress)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize(
    "content",
    [
        {"version": 0},
        {"state_dict": {}, "global_step": 5},
        ["a list"],
        {"callbacks": Path("a class of its own")},
        b"",
        b"no zip",
        b"PK\x03\x04",
    ],
    ids=["older", "another program", "list", "classes", "empty", "text", "cut"],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, content: object) -> None:
    path = tmp_path / "toy.partial" / "checkpoint.pt"
    path.parent.mkdir()
    assert Checkpoint.load(path) is None
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(StateError, match=r"expected a checkpoint of version 4.*remove .*toy\.partial") as raised:
        Checkpoint.load(path)
    assert "\n" not in str(raised.value)
    assert path.exists()


def test_no_bit_that_changed_is_trained_from(tmp_path: Path) -> None:
    """It is noticed, or is one of those that hold nothing."""
    path = tmp_path / "checkpoint.pt"
    Checkpoint("run", {"code": "1"}, {"weight": torch.ones(3)}, {"state": {}}, Progress(3)).save(path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            loaded = Checkpoint.load(path)
        except StateError:
            refused += 1
        else:
            assert loaded is not None
            assert torch.equal(loaded.model["weight"], torch.ones(3))
            assert (loaded.identity, loaded.optimizer, loaded.progress) == ("run", {"state": {}}, Progress(3))
    assert refused > len(whole) // 50


class Refusing(io.FileIO):
    """A file of which the disk refuses one write."""

    left, code = 0, 0

    def write(self, content: object) -> int:
        Refusing.left -= 1
        if Refusing.left == 0:
            raise OSError(self.code, os.strerror(self.code))
        return super().write(content)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_write_that_the_disk_refuses_is_its_error_and_keeps_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """torch ends its archive all the same, and its own error hides that of the disk."""
    path = tmp_path / "checkpoint.pt"
    write_saved(path, {"weight": torch.ones(3)})
    before, real = path.read_bytes(), Path.open
    Refusing.code = code
    for refused in (1, 2, 3):
        Refusing.left = refused
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", lambda path, mode: Refusing(path, "w") if mode == "wb" else real(path, mode))
            with pytest.raises((StoreError, OSError)) as told:
                write_saved(path, {"weight": torch.zeros(3)})
        if code == errno.EIO:
            assert str(told.value) == f"{path} cannot be written: Input/output error; check that disk, and run again"
        else:
            assert isinstance(told.value, OSError)
            assert (told.value.errno, told.value.filename) == (code, str(path))
        assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]
        assert path.read_bytes() == before
