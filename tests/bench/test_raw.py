"""Made-up raw input of the benches."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.raw import lengthen
from tests.pipeline.conftest import ROOT


def test_a_longer_text_has_the_paragraphs_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where params.yaml is
    source = tmp_path / "source"
    source.mkdir()
    paragraphs = {f"paragraph {number} of a text" for number in range(40)}
    (source / "a.txt").write_text("\r\n\r\n".join(sorted(paragraphs)), newline="")
    written = list(lengthen(source, tmp_path / "made", 6000, files=4).iterdir())
    assert len(written) >= 4
    texts = [path.read_text() for path in written]
    assert sum(map(len, texts)) >= 6000
    assert {part for text in texts for part in text.split("\n\n") if part} == paragraphs
