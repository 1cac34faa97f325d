"""Sessions are surveyed again when a file changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outofcore.domains.neural import survey
from outofcore.domains.neural.params import NeuralSection
from outofcore.raw.files import RawFile


def test_a_file_whose_modification_time_was_put_back_is_surveyed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes(b"before")
    facts = path.stat()
    section = NeuralSection.model_validate({"raw": str(tmp_path)})
    files = [RawFile("a.h5", path, facts.st_size)]
    monkeypatch.setattr(survey, "_look", lambda *_: path.read_bytes())
    assert survey.look_at(files, section) == b"before"
    path.write_bytes(b"behind")
    while path.stat().st_ctime_ns == facts.st_ctime_ns:  # until the clock of the filesystem has ticked
        os.utime(path)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert survey.look_at(files, section) == b"behind"
