"""A dataset of the Hugging Face hub as a raw file, streamed with the optional ``datasets`` library.

It is named by a small YAML file that ends in ``.hub``, so that the pipeline has a file to depend on, with ``dataset:
roneneldan/TinyStories`` and ``revision: main`` (better a commit, for reproducible text).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import yaml
from pydantic import Field, ValidationError

from outofcore.domains.domain import Section
from outofcore.domains.text.documents.reading import SUFFIXES
from outofcore.domains.text.params import HUB, TextSection
from outofcore.errors import ParamsError
from outofcore.raw.files import Member, RawFile, find_files


class Dataset(Section):
    """Content of a ``.hub`` file."""

    dataset: str = Field(description="its id on the hub, or a folder that holds a dataset")
    configuration: str | None = Field(None, description="its configuration; null: the only one")
    revision: str | None = Field(None, description="a commit or a tag; null: the newest, whatever that is on the day")
    split: str = Field("train", description="the split of the dataset that is read")


def open_raw(section: TextSection) -> list[RawFile]:
    """The raw files of a section, or its dataset in the same form.

    Raises RawInputError without raw files, and ParamsError for an invalid ``.hub`` file or, on reading, if ``datasets``
    is not installed or does not find the dataset.
    """
    files = find_files(section.raw, section.match, SUFFIXES, section="text")
    if not section.raw.endswith(HUB):
        return files
    (file,) = files
    try:
        dataset = Dataset.model_validate(yaml.safe_load(file.path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError, ValidationError) as error:
        message = f"text.raw: expected {file.path} to say 'dataset: <id>' in YAML; {' '.join(str(error).split())}"
        raise ParamsError(message) from error
    return [HubFile(file.name, file.path, file.bytes, dataset, section.source.text_column)]


@dataclass(frozen=True)
class HubFile(RawFile):
    """A dataset, read as lines of JSON."""

    dataset: Dataset
    column: str

    def members(self, suffixes: tuple[str, ...]) -> Iterator[Member]:
        """One member: a line per record of the dataset's split."""
        del suffixes
        lines = _Lines({self.column: record.get(self.column)} for record in self._records())
        stream = cast("BinaryIO", io.BufferedReader(lines, 1 << 20))
        yield Member(f"{self.name}.jsonl", stream, lambda: lines.given)

    def _records(self) -> Iterable[dict[str, Any]]:
        try:
            import datasets
        except ImportError as error:
            message = f"text.raw: {self.path} needs the library datasets; install outofcore[hub]"
            raise ParamsError(message) from error
        try:
            records: Iterable[dict[str, Any]] = datasets.load_dataset(
                self.dataset.dataset,
                self.dataset.configuration,
                split=self.dataset.split,
                revision=self.dataset.revision,
                streaming=True,
            )
        except (FileNotFoundError, ValueError, ConnectionError) as error:
            message = f"text.raw: {self.path}: {' '.join(str(error).split())}"
            raise ParamsError(message) from error
        return records


class _Lines(io.RawIOBase):
    """Records as a lazy stream of lines."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        self.given = 0
        self._records = iter(records)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while len(self._rest) < len(buffer):
            record = next(self._records, None)
            if record is None:
                break
            self._rest += json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        self.given += size
        return size
