"""The seam: what a domain must offer, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

from outofcore.domains.reading import Reading as Reading  # also known by this path
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit, UnitResult
from outofcore.store.schema import Columns, Schema

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from outofcore.domains.task import Task
    from outofcore.store.reader import Store


class Section(BaseModel):
    """Base of every typed section of params.yaml: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Domain(Protocol):
    """One kind of data, from raw file to tensors.

    Attributes
    ----------
    name
        One word: section in params.yaml, folder, stage, store, metrics.
    row, sequence
        What a row and a sequence are called ("position", "game").
    suffixes
        File name endings that count in a folder, before a compression suffix ((".pgn",)).
    section
        The typed section of params.yaml.
    """

    name: str
    row: str
    sequence: str
    suffixes: tuple[str, ...]
    section: type[Section]

    def schemas(self, section: Any, files: Sequence[RawFile]) -> dict[str, Schema]:
        """Parts of the store and their tables; ``{"": schema}`` where there is one part."""
        ...

    def units(self, files: Sequence[RawFile], section: Any) -> Iterator[Unit]:
        """Cut the raw files, in order, into units at record boundaries; streams, never holds a file."""
        ...

    def converter(self, section: Any) -> Callable[[Unit], UnitResult]:
        """A pure, picklable function: the same unit gives the same result anywhere."""
        ...

    def reading(self, store_attributes: Mapping[str, Any], section: Any) -> Reading:
        """How rows become tensors, by the section's ``tensors`` settings."""
        ...

    def task(self, store: Store, section: Any) -> Task:
        """The model to train on a store, with its loss and figures."""
        ...

    def sample(self, folder: Path, generator: np.random.Generator) -> None:
        """Write the small sample input of this domain into an empty folder."""
        ...

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        """The first of the given rows as text that a person can read (a board, a piece of text).

        Parameters
        ----------
        rows
            Some rows of a store.
        attributes
            The store's, where there is one: what rows mean may depend on them (the tokenizer of a text).
        """
        ...
