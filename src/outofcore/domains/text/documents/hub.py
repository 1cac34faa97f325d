"""A dataset as a raw file: records of the user's, or of the Hugging Face hub.

The hub is read with the optional ``datasets`` library. The dataset is named by a small YAML file that ends in ``.hub``,
so that the pipeline has a file to depend on, with ``dataset: roneneldan/TinyStories`` and ``revision: main`` (better a
commit, for reproducible text).
"""

from __future__ import annotations

import io
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from outofcore.domains.domain import Section
from outofcore.domains.text.documents.reading import RecordsMember, value_of, values_of
from outofcore.domains.text.params import HUB, SUFFIXES, TextSection
from outofcore.errors import OutOfCoreError, ParamsError, RawInputError
from outofcore.raw.files import Member, RawFile, find_files
from outofcore.settings.yaml_text import parse_yaml
from outofcore.system.extras import load


class Dataset(Section):
    """Content of a ``.hub`` file."""

    dataset: str = Field(description="its id on the hub, or a folder that holds a dataset")
    configuration: str | None = Field(None, description="its configuration; null: the only one")
    revision: str | None = Field(None, description="a commit or a tag; null: the newest, whatever that is on the day")
    split: str = Field("train", description="the split of the dataset that is read")


def open_raw(section: TextSection) -> list[RawFile]:
    """The raw files of a section, or its dataset in the same form."""
    files = find_files(section.raw, section.match, SUFFIXES, section="text")
    if not section.raw.endswith(HUB):
        return files
    (file,) = files
    try:
        dataset = Dataset.model_validate(parse_yaml(file.path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ParamsError(
            f"text.raw: expected {file.path} to say 'dataset: <id>' in YAML; {' '.join(str(error).split())}"
        ) from error
    return [RecordsFile(file.name, file.place, file.bytes, section.source.text_column, HubRecords(file.path, dataset))]


def given_records(records: object, column: str) -> RecordsFile:
    """What iterates over mappings as a raw file; it is read again in each epoch."""
    if not isinstance(records, Iterable):
        raise ParamsError(f"raw: expected a file, a folder, or what iterates over records, got {reprlib.repr(records)}")
    if isinstance(records, Iterator):
        raise ParamsError(
            f"raw: expected records that can be read again in each epoch, got a {type(records).__name__}, which "
            "can be read once; give a dataset, a list, or an object whose __iter__ starts over"
        )
    return RecordsFile("records", "", 0, column, records)


@dataclass(frozen=True)
class HubRecords:
    """A dataset of the hub, streamed anew by each iteration."""

    path: Path  # of the file that names it
    dataset: Dataset

    def __iter__(self) -> Iterator[dict[str, Any]]:
        datasets = load("datasets", "hub", f"text.raw: {self.path}")
        named = self.dataset
        options = {"split": named.split, "revision": named.revision, "streaming": True}
        try:
            records = datasets.load_dataset(named.dataset, named.configuration, **options)
        except (FileNotFoundError, ValueError, ConnectionError) as error:
            raise ParamsError(f"text.raw: {self.path}: {' '.join(str(error).split())}") from error
        yield from records


@dataclass(frozen=True)
class RecordsFile(RawFile):
    """A dataset, a document per record."""

    column: str  # that holds the text
    records: Iterable[Mapping[str, Any]]

    def members(self, suffixes: tuple[str, ...]) -> Iterator[Member]:
        """One member."""
        del suffixes
        yield RecordsMember(self.name, io.BufferedReader(io.BytesIO()), lambda: 0, values_of(self._texts()))

    def _texts(self) -> Iterator[bytes | None]:
        for number, record in enumerate(self._read()):
            if not isinstance(record, Mapping):
                raise ParamsError(
                    f"text.raw: expected records with a column {self.column!r}, got {reprlib.repr(record)}"
                )
            text = value_of(record, self.column)
            if not number and self.column not in record and text is None:
                columns = ", ".join(map(str, record))
                raise ParamsError(
                    f"text.source.text_column: expected a column of the dataset ({columns}), got {self.column!r}"
                )
            yield text.encode("utf-8", "surrogatepass") if isinstance(text, str) else None

    def _read(self) -> Iterator[Any]:
        try:
            yield from self.records
        except OutOfCoreError:
            raise
        except Exception as error:  # else some errors would pass for a damaged file, which is skipped
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise RawInputError(f"text.raw: the dataset cannot be read any further: {why}") from error
