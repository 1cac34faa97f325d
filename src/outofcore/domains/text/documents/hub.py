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
from typing import Any, Self

from pydantic import Field

from outofcore.domains.domain import Section
from outofcore.domains.text.documents.reading import RecordsMember, grouped, value_of
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
    return [HubFile(file.name, file.place, file.bytes, section.source.text_column, dataset)]


@dataclass(frozen=True)
class RecordsFile(RawFile):
    """A dataset, a document per record."""

    column: str  # that holds the text

    def members(self, suffixes: tuple[str, ...]) -> Iterator[Member]:
        """One member."""
        del suffixes
        yield RecordsMember(self.name, io.BufferedReader(io.BytesIO()), lambda: 0, grouped(self._texts()))

    def _texts(self) -> Iterator[bytes | None]:
        for number, record in enumerate(self._read()):
            if not isinstance(record, Mapping):
                raise ParamsError(
                    f"text.raw: expected records with a column {self.column!r}, got {reprlib.repr(record)}"
                )
            if not number and self.column not in record and value_of(record, self.column) is None:
                columns = ", ".join(map(str, record))
                raise ParamsError(
                    f"text.source.text_column: expected a column of the dataset ({columns}), got {self.column!r}"
                )
            text = value_of(record, self.column)
            yield text.encode("utf-8", "surrogatepass") if isinstance(text, str) else None

    def _read(self) -> Iterator[Any]:
        try:
            yield from self._records()
        except OutOfCoreError:
            raise
        except Exception as error:  # else some errors would pass for a damaged file, which is skipped
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise RawInputError(f"text.raw: the dataset cannot be read any further: {why}") from error

    def _records(self) -> Iterable[Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class GivenRecords(RecordsFile):
    """What iterates over mappings, such as a dataset of the library ``datasets``."""

    records: Iterable[Mapping[str, Any]]

    @classmethod
    def of(cls, records: object, column: str) -> Self:
        """Check that records can be read, again in each epoch."""
        if not isinstance(records, Iterable):
            raise ParamsError(
                f"raw: expected a file, a folder, or what iterates over records, got {reprlib.repr(records)}"
            )
        if isinstance(records, Iterator):
            raise ParamsError(
                f"raw: expected records that can be read again in each epoch, got a {type(records).__name__}, which "
                "can be read once; give a dataset, a list, or an object whose __iter__ starts over"
            )
        return cls("records", "", 0, column, records)

    def _records(self) -> Iterable[Any]:
        return self.records


@dataclass(frozen=True)
class HubFile(RecordsFile):
    """A dataset of the hub, streamed."""

    dataset: Dataset

    def _records(self) -> Iterable[Any]:
        datasets = load("datasets", "hub", f"text.raw: {self.path}")
        try:
            records: Iterable[dict[str, Any]] = datasets.load_dataset(
                self.dataset.dataset,
                self.dataset.configuration,
                split=self.dataset.split,
                revision=self.dataset.revision,
                streaming=True,
            )
        except (FileNotFoundError, ValueError, ConnectionError) as error:
            raise ParamsError(f"text.raw: {self.path}: {' '.join(str(error).split())}") from error
        return records
