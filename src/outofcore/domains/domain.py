"""The interface of a domain: what it consists of, by convention, and the base of its settings."""

# What a module of a domain returns is known by convention alone.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from outofcore.domains.reading import Reading as Reading  # also known by this path
from outofcore.domains.versions import Versions
from outofcore.errors import ParamsError
from outofcore.raw.cutting import halves
from outofcore.raw.files import RawFile
from outofcore.raw.unit import AuditRate, Unit, UnitResult
from outofcore.store.schema import Columns, Schema
from outofcore.system.extras import installed, missing

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from torch import Tensor

    from outofcore.display.table import DisplayTable
    from outofcore.domains.gallery import Distribution, Passage, Picture
    from outofcore.domains.planning import Outlook
    from outofcore.domains.task import Batch, Task
    from outofcore.store.reader import Store

PREDICTED_SPLIT = "train"
"""The split that holds all rows of the store that an input of predictions is converted into."""

Row = dict[str, Any]
"""A prediction by name: numbers, texts, or a mapping of texts to numbers."""

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
        annotations = {name: field.annotation for name, field in cls.model_fields.items()}
        numbers = {name for name, kind in annotations.items() if kind is float or float in get_args(kind)}

        def meant(name: str, value: Any) -> Any:
            if name in numbers and isinstance(value, str) and _WITHOUT_POINT.fullmatch(value):
                return float(value)
            return tuple(value) if isinstance(value, list) else value

        return {name: meant(name, value) for name, value in values.items()}


Judge = Callable[[], tuple[Any, "Iterable[tuple[Batch, Mapping[str, Tensor]]]"]]
"""Returns a task, and batches of the loader from a split's first row on, in order, each with what it predicts of it."""
Divided = Callable[[Unit], "Sequence[Unit] | None"]
"""The records of a unit in several units, none if it is one record, None if it cannot be divided.

A record at which ``convert`` raises is so found, and rejected alone.
"""


class Domain:
    """One kind of data, from raw files to tensors.

    A domain is a package whose ``DOMAIN`` is an instance of a subclass of this one, defined in its ``__init__``;
    nothing else is taken from there. A folder here is a domain if it has a ``schema.py``; an installed package declares
    an entry point. Each method calls the function of the same purpose in a module of that package, imported when it is
    first needed; a subclass overrides the methods for which that does not suffice. Modules that its package lacks are
    those of the domain that it extends.

    ==============  =======================================================================================
    ``schema.py``   ``SCHEMA``, or ``schemas(section, files)`` where it depends on them
    ``source.py``   ``units(files, section)``; ``last_start(text)`` for the cutter, or ``divided(unit, section)``
    ``convert.py``  ``convert(unit, section)``, or ``make_converter(section, rate)`` to audit records
    ``tensors.py``  ``make_reading(store_attributes, section)``
    ``model.py``    ``make_task(store, section, evaluated, split)``; optionally ``planned_task(section, schemas)``
    ``sample.py``   ``write_sample(folder, generator)``
    ``draw.py``     ``draw(rows, attributes)``; optional
    ``gallery.py``  ``pictures(store)``, ``distributions(store)``; optional
    ``predict.py``  ``predict(task, batch)`` and ``rows(task, store, part, predicted, options, reading)``, or
                    ``answer(task, raw, section, options)`` in place of ``rows``; ``Options`` and
                    ``unfiltered(section)`` where they differ from the defaults; ``mistakes(store, split, judge)``
                    for the report; optional
    ==============  =======================================================================================

    A package within ``outofcore.domains`` is found by its folder, any other by an entry point of the group
    ``outofcore.domains`` in its own distribution, named as the domain.

    Attributes
    ----------
    name
        One word: section in params.yaml, folder, stage, store, metrics.
    row, sequence
        Names of a row and a sequence ("position", "game").
    divided_by
        The setting that makes several sequences of what would be one ("source.separator"), where there is one.
    suffixes
        File name endings that count in a folder, before a compression suffix ((".pgn",)).
    section
        The typed section of params.yaml, a subclass of :class:`outofcore.domains.sections.DomainSection`.
    versions
        Versions of the bytes of its stores, and of its training. Count one up if equal input and settings give other
        bytes, or other records, or another model: projects then convert, or train, again.
    packages
        What its conversion imports and other domains do not: their versions count among those that determine bytes.
        In outofcore they are those of the extra of its name.
    sizes
        Attributes of a part that are lower bounds of the number of weights of its model ("neurons"): a model file whose
        attributes exceed its weights is refused before anything of that size is made.
    rejecting
        Settings that decide about a reject, with its reasons: ``{"filters.min_elo": ("elo_too_low",)}``.
    losses
        Reasons to reject a record for damage, not for a setting: a share above 1 % is said, with examples.
    shortest
        Bytes of plain raw files, by their ending, that give a row, and that give a sequence, at least: of little input
        the store is then known to fit without a forecast.
    not_audited
        Why no reference library reads its records a second time; "" if one does.
    """

    name: str
    row: str
    sequence: str
    divided_by: str = ""
    suffixes: tuple[str, ...]
    section: type[Section]
    versions: Versions = Versions()
    packages: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    rejecting: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    losses: tuple[str, ...] = ()
    shortest: tuple[tuple[str, int, int], ...] = ()
    not_audited: str = ""

    def schemas(self, section: Any, files: Sequence[RawFile]) -> dict[str, Schema]:
        """Parts of the store and their tables; ``{"": schema}`` for a single part."""
        self.require_packages()
        module = self._module("schema")
        return module.schemas(section, files) if hasattr(module, "schemas") else {"": module.SCHEMA}

    def units(self, files: Sequence[RawFile], section: Any) -> Iterator[Unit]:
        """Cut the raw files, in order, into units at record boundaries; must stream, never hold a whole file."""
        self.require_packages()
        return self._module("source").units(files, section)

    def divided(self, section: Any) -> Divided | None:
        """The ``divided`` of ``source.py``, or what follows from its ``last_start``; picklable, None without either."""
        module = self._optional("source")
        if hasattr(module, "divided"):
            return partial(module.divided, section=section)
        return partial(halves, last_start=module.last_start) if hasattr(module, "last_start") else None

    def record(self, unit: Unit, section: Any, place: tuple[int, int], size: int | None) -> bytes:
        """The record of a unit that begins at a member and an offset, as UTF-8; ``size`` is its column ``bytes``."""
        del size
        divided = self.divided(section)
        while parts := divided and divided(unit):
            unit = next((part for part in reversed(parts) if part.begin <= place), parts[0])
        return unit.payload

    def converter(self, section: Any, rate: AuditRate) -> Callable[[Unit], UnitResult]:
        """A pure, picklable function: the same unit gives the same result anywhere.

        A domain with a reference library audits records at the given ``rate``.
        """
        self.require_packages()
        module = self._module("convert")
        if hasattr(module, "make_converter"):
            return module.make_converter(section, rate)
        return partial(module.convert, section=section)

    def reading(self, store_attributes: Mapping[str, Any], section: Any) -> Reading:
        """How rows become tensors, by the section's ``tensors`` settings."""
        return self._module("tensors").make_reading(store_attributes, section)

    def task(self, store: Store, section: Any, evaluated: Store | None = None, split: str = "val") -> Task:
        """The model to train on a store, with its loss and metrics.

        Figures that compare chosen samples choose them in ``split`` of ``evaluated``, by default the store itself.
        """
        return self._module("model").make_task(store, section, evaluated or store, split)

    def check_trainable(self, section: Any, store: Store) -> None:
        """Raise ParamsError if training would refuse a store for the sequences that it has."""
        del section
        for split in ("train", "val"):
            if not any(len(store.sequences(split, part)) for part in store.parts):
                more = f", divide one by {self.name}.{self.divided_by}" if self.divided_by else ""
                raise ParamsError(
                    f"{self.name}: training needs a {self.sequence} in the {split} split, which has none: convert more"
                    f"{more}, or change {self.name}.splits"
                )

    def planned_task(self) -> Callable[[Any, Mapping[str, Schema]], Task] | None:
        """The function that makes the task before there is a store, if the domain has one."""
        return getattr(self._optional("model"), "planned_task", None)

    def plan(self, section: Any, outlook: Outlook) -> tuple[DisplayTable, ...]:
        """The domain's own tables for ``outofcore plan``."""
        del section, outlook
        return ()

    def contents(self, path: Path) -> DisplayTable | None:
        """What ``outofcore info`` shows of a raw file, such as its arrays; None if this domain lists no such file."""
        del path
        return None

    def sample(self, folder: Path, generator: np.random.Generator) -> None:
        """Write the small sample input of this domain into an empty folder."""
        self._module("sample").write_sample(folder, generator)

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        """The first of the given rows as readable text (a board, a piece of text), or "".

        Parameters
        ----------
        rows
            Some rows of a store.
        attributes
            Of the store, if any: rows may depend on them for their meaning (the tokenizer of a text).
        """
        module = self._optional("draw")
        return module.draw(rows, attributes) if module else ""

    def ratios(self, store: Store) -> Mapping[str, float]:
        """Figures of a store that ``outofcore info`` adds, by name (``characters_per_token``); by default none."""
        del store
        return {}

    def pictures(self, store: Store) -> Sequence[Picture | Passage]:
        """A few rows for the report, spread over the store."""
        module = self._optional("gallery")
        return module.pictures(store) if module else ()

    def distributions(self, store: Store) -> Sequence[Distribution]:
        """Distributions over the sequences of the store, for the report."""
        module = self._optional("gallery")
        return module.distributions(store) if module else ()

    def mistakes(self, store: Store, split: str, judge: Judge) -> Sequence[Picture]:
        """A few rows of a split that a trained model gets most wrong, for the report; by default none.

        ``judge`` loads the model.
        """
        module = self._optional("predict")
        return module.mistakes(store, split, judge) if hasattr(module, "mistakes") else ()

    @property
    def has_predictions(self) -> bool:
        """Whether there is something for ``outofcore predict``."""
        return self._optional("predict") is not None

    def predict(self, task: Any, batch: Batch) -> Mapping[str, Tensor]:
        """What the model expects of a batch of the loader, under the keys of what it predicts.

        Raises ParamsError if the domain has no predictions.
        """
        return self._predictions().predict(task, batch)

    def prediction_options(self) -> type[Section]:
        """What a user may choose for each input of predictions, by name; by default nothing."""
        return getattr(self._predictions(), "Options", Section)

    def answer(self, task: Any, raw: Path, section: Any, options: Any) -> Iterable[Row] | None:
        """Predictions for what is not converted, such as a prompt; None if the input is converted."""
        module = self._predictions()
        return module.answer(task, raw, section, options) if hasattr(module, "answer") else None

    def unfiltered(self, section: Any) -> Any:
        """The section of a conversion that keeps every record that the model can read; by default as it is."""
        module = self._predictions()
        return module.unfiltered(section) if hasattr(module, "unfiltered") else section

    def prediction_rows(
        self,
        task: Any,
        store: Store,
        part: str,
        predicted: Iterable[Mapping[str, Tensor]],
        options: Any,
        reading: Reading,
    ) -> Iterator[Row]:
        """Readable predictions for a part of a converted input.

        ``predicted`` holds what :meth:`predict` returns, on the CPU, for consecutive batches of all samples of
        :data:`PREDICTED_SPLIT`, in the order of the store, which ``reading`` made of its rows.
        """
        return self._predictions().rows(task, store, part, predicted, options, reading)

    def prepared(self, section: Any, store: str) -> Any:
        """The section for a conversion outside of a project, with what it needs first made next to the store."""
        del store
        return section

    def streamed(self, section: Any) -> bool:
        """Whether the section asks for training directly from raw files; if so, the domain is a ``Streaming`` one."""
        del section
        return False

    @property
    def extra(self) -> str:
        """The extra of outofcore with the packages of this domain, if there is one."""
        return self.name if self.packages and type(self).__module__.startswith("outofcore.") else ""

    def require_packages(self) -> None:
        """Raise ParamsError if a package that a conversion needs is not installed; one may be needed late, to audit."""
        for package in self.packages:
            if not installed(package):
                raise self._without(package)

    def _predictions(self) -> Any:
        if module := self._optional("predict"):
            return module
        raise ParamsError(f"domain {self.name} has no predictions: its package has no predict.py; use model.task")

    def _module(self, name: str) -> Any:
        return self._optional(name) or import_module(f"{type(self).__module__}.{name}")

    def _optional(self, name: str) -> Any:
        """A module of the package, or of that of the nearest class that it extends; None if there is none."""
        place = self._place(name)
        try:
            return import_module(place) if place else None
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package in self.packages:
                raise self._without(package) from error
            raise

    def _place(self, name: str) -> str | None:
        for kind in type(self).__mro__:
            with suppress(ModuleNotFoundError):  # it is no package
                if kind is not Domain and find_spec(f"{kind.__module__}.{name}"):
                    return f"{kind.__module__}.{name}"
        return None

    def _without(self, package: str) -> ParamsError:
        # A domain of another package depends on what that package needs.
        cure = f"outofcore[{self.extra}]" if self.extra else type(self).__module__.partition(".")[0]
        return ParamsError(missing(f"domain {self.name}", package, cure))
