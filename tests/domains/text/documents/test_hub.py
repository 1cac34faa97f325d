from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from outofcore.domains.text.documents.hub import open_raw
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.learn import texts
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


def streamed(raw: Path, **keys: Any) -> TextSection:
    return TextSection.model_validate({"raw": str(raw), "mode": "stream", **keys})


def named(folder: Path, content: str) -> Path:
    """A .hub file."""
    path = folder / "stories.hub"
    path.write_text(content)
    return path


def read(section: TextSection) -> list[str]:
    (file,) = open_raw(section)
    return [document.decode() for document in texts(file, section, [])]


def test_a_dataset_is_read_as_it_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library = Library()
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert read(streamed(named(tmp_path, "dataset: someone/stories"))) == STORIES
    assert read(streamed(named(tmp_path, "{dataset: a, configuration: b, revision: c, split: d}"))) == STORIES
    assert library.asked == [
        (("someone/stories", None), {"split": "train", "revision": None, "streaming": True}),
        (("a", "b"), {"split": "d", "revision": "c", "streaming": True}),
    ]
    with pytest.raises(ParamsError, match=r"stories.hub: Dataset 'nobody/nothing' doesn't exist"):
        read(streamed(named(tmp_path, "dataset: nobody/nothing")))


@pytest.mark.parametrize("content", ["", "name: x", "[1,", "dataset: x\nrevison: y"])
def test_a_file_that_names_no_dataset_is_told(tmp_path: Path, content: str):
    with pytest.raises(ParamsError, match=r"text.raw: expected .*stories.hub to say 'dataset: <id>' in YAML"):
        open_raw(streamed(named(tmp_path, content)))


def test_without_the_library_it_is_said_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ParamsError, match=r"stories.hub needs datasets: pip install 'outofcore\[hub\]'"):
        read(streamed(named(tmp_path, "dataset: someone/stories")))


def test_a_dataset_on_disk(tmp_path: Path):
    pytest.importorskip("datasets")
    folder = tmp_path / "stories"
    folder.mkdir()
    pq.write_table(pa.table({"body": STORIES}), folder / "train-00000.parquet", row_group_size=100)
    assert read(streamed(named(tmp_path, f"dataset: {folder}"), source={"text_column": "body"})) == STORIES


def test_a_store_is_not_made_of_it():
    with pytest.raises(ValidationError, match="read in mode stream only"):
        TextSection.model_validate({"raw": "stories.hub"})
