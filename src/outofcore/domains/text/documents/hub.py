"""A dataset of the Hugging Face hub as a raw file, streamed through the ``datasets`` library, an optional extra."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from outofcore.domains.text.documents.members import SUFFIXES
from outofcore.domains.text.params import HUB, TextSection
from outofcore.errors import ParamsError
from outofcore.raw.files import Member, RawFile, find_files

SPLIT = "train"


def open_raw(section: TextSection) -> list[RawFile]:
    """The raw files of a section, or its dataset as if it were one.

    Raises
    ------
    RawInputError
        If there are no raw files.
    ParamsError
        If a dataset is named and ``datasets`` is not installed, or finds no such dataset.
    """
    if not section.raw.startswith(HUB):
        return find_files(section.raw, section.match, SUFFIXES, section="text")
    identifier, _, configuration = section.raw.removeprefix(HUB).partition(":")
    return [HubFile(section.raw, Path(), 1, identifier, configuration or None, section.source.text_column)]


@dataclass(frozen=True)
class HubFile(RawFile):
    """A dataset, read as lines of JSON.

    Attributes
    ----------
    identifier, configuration
        As ``datasets.load_dataset`` takes them: an id, or a folder that holds a dataset.
    column
        The column that holds the text.
    """

    identifier: str
    configuration: str | None
    column: str

    def members(self, suffixes: tuple[str, ...]) -> Iterator[Member]:
        """One member: a line for each record of the dataset's train split, from the first on."""
        del suffixes
        lines = _Lines({self.column: record.get(self.column)} for record in self._records())
        stream = cast("BinaryIO", io.BufferedReader(lines, 1 << 20))
        yield Member(f"{self.name}.jsonl", stream, lambda: lines.given)

    def _records(self) -> Iterable[dict[str, Any]]:
        try:
            import datasets
        except ImportError as error:
            message = f"text.raw: {self.name} needs the library datasets; install outofcore[hub]"
            raise ParamsError(message) from error
        try:
            records: Iterable[dict[str, Any]] = datasets.load_dataset(
                self.identifier, self.configuration, split=SPLIT, streaming=True
            )
        except (FileNotFoundError, ValueError, ConnectionError) as error:
            message = f"text.raw: {self.name}: {' '.join(str(error).split())}"
            raise ParamsError(message) from error
        return records


class _Lines(io.RawIOBase):
    """Records as a stream of lines, made as they are asked for."""

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
