from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from outofcore.domains.text.documents.hub import open_raw
from outofcore.domains.text.documents.sampling import texts
from outofcore.domains.text.params import TextSection
from outofcore.errors import ParamsError
from tests.domains.text.conftest import PROSE

STORIES = [f"{number} {PROSE}" for number in range(300)]


class Library:
    """What is used of the library ``datasets``."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def load_dataset(self, *names: Any, **options: Any) -> Any:
        self.asked.append((names, options))
        if names[0] == "nobody/nothing":
            message = "Dataset 'nobody/nothing'\n doesn't exist"
            raise FileNotFoundError(message)
        return ({"id": number, "text": story} for number, story in enumerate([*STORIES, None, "\ud800"]))


def streamed(raw: str, **keys: Any) -> TextSection:
    return TextSection.model_validate({"raw": raw, "mode": "stream", "filters": {"duplicates": "keep"}, **keys})


def read(section: TextSection) -> list[str]:
    (file,) = open_raw(section)
    return [b"".join(document).decode() for document in texts(file, section)]


def test_a_dataset_is_read_as_it_streams(monkeypatch: pytest.MonkeyPatch):
    library = Library()
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert read(streamed("hub:someone/stories:small")) == STORIES
    assert library.asked == [(("someone/stories", "small"), {"split": "train", "streaming": True})]
    with pytest.raises(ParamsError, match=r"hub:nobody/nothing: Dataset 'nobody/nothing' doesn't exist"):
        read(streamed("hub:nobody/nothing"))


def test_without_the_library_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ParamsError, match=r"hub:someone/stories needs the library datasets; install outofcore\[hub\]"):
        read(streamed("hub:someone/stories"))


def test_a_dataset_on_disk(tmp_path: Path):
    pytest.importorskip("datasets")
    folder = tmp_path / "stories"
    folder.mkdir()
    pq.write_table(pa.table({"body": STORIES}), folder / "train-00000.parquet", row_group_size=100)
    assert read(streamed(f"hub:{folder}", source={"text_column": "body"})) == STORIES


def test_a_store_is_not_made_of_it():
    with pytest.raises(ValidationError, match="read in mode stream only"):
        TextSection.model_validate({"raw": "hub:someone/stories"})


def test_other_raw_text_is_files(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one")
    assert [file.name for file in open_raw(streamed(str(tmp_path)))] == ["a.txt"]
