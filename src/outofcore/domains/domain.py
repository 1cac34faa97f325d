"""The interface that a domain implements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict, model_validator

from outofcore.domains.reading import Reading as Reading  # also known by this path
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit, UnitResult
from outofcore.store.schema import Columns, Schema

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from outofcore.domains.task import Task
    from outofcore.store.reader import Store

_WITHOUT_POINT = re.compile(r"[+-]?\d+[eE][+-]?\d+")


class Section(BaseModel):
    """Base of every typed section of params.yaml.

    Unknown keys are errors, and so are values of another type: ``true`` is not a number, and numbers are finite.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _as_yaml_means(cls, values: Any) -> Any:
        """Convert lists to tuples, and ``1e-3``, which YAML 1.1 reads as text, to a number."""
        if not isinstance(values, dict):
            return values
        numbers = {name for name, field in cls.model_fields.items() if field.annotation in (float, float | None)}

        def meant(name: str, value: Any) -> Any:
            if name in numbers and isinstance(value, str) and _WITHOUT_POINT.fullmatch(value):
                return float(value)
            return tuple(value) if isinstance(value, list) else value

        return {name: meant(name, value) for name, value in values.items()}


class Domain(Protocol):
    """One kind of data, from raw file to tensors.

    Attributes
    ----------
    name
        One word: section in params.yaml, folder, stage, store, metrics.
    row, sequence
        Names of a row and a sequence ("position", "game").
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
        """Parts of the store and their tables; ``{"": schema}`` for a single part."""
        ...

    def units(self, files: Sequence[RawFile], section: Any) -> Iterator[Unit]:
        """Cut the raw files, in order, into units at record boundaries; must stream, never hold a whole file."""
        ...

    def converter(self, section: Any) -> Callable[[Unit], UnitResult]:
        """A pure, picklable function: the same unit gives the same result anywhere."""
        ...

    def reading(self, store_attributes: Mapping[str, Any], section: Any) -> Reading:
        """How rows become tensors, by the section's ``tensors`` settings."""
        ...

    def task(self, store: Store, section: Any) -> Task:
        """The model to train on a store, with its loss and metrics."""
        ...

    def sample(self, folder: Path, generator: np.random.Generator) -> None:
        """Write the small sample input of this domain into an empty folder."""
        ...

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        """The first of the given rows as readable text (a board, a piece of text).

        Parameters
        ----------
        rows
            Some rows of a store.
        attributes
            Of the store, if any: rows may depend on them for their meaning (the tokenizer of a text).
        """
        ...
