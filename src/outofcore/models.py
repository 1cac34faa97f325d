"""Trained models: loaded without their store, and tried on raw files."""

from __future__ import annotations

import csv
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from outofcore.checks import refuse
from outofcore.domains.domain import PREDICTED_SPLIT, Domain, Row
from outofcore.domains.own_network import allow_network
from outofcore.domains.reading import Reading, Windowed, reading_for
from outofcore.domains.registry import get_domain
from outofcore.domains.sections import SplitSection
from outofcore.domains.task import Batch, Task, nearest, vectors_of
from outofcore.errors import ParamsError, RawInputError, StateError
from outofcore.loading.arguments import named_device
from outofcore.loading.loader import loader
from outofcore.pipeline import convert_to_folder
from outofcore.settings.machine import load_machine
from outofcore.settings.yaml_text import parse_json
from outofcore.store.reader import Store, open_store
from outofcore.store.schema import Schema
from outofcore.system.durable import TemporaryFolder
from outofcore.training.evaluation import add_sums
from outofcore.training.results import model_file, read_model, section_of_identity

STORE = "store.zarr"
BATCH = 256
MOST_REJECTS = 1000
"""Most records left out that are held; all are counted."""
KEPT_NOTHING = "make room there, or set TMPDIR to a folder on another disk, and run the same command again"
_DIGITS = 6


def load_model(
    path: str | Path, device: str | torch.device = "cpu", *, network: type[torch.nn.Module] | None = None
) -> Model:
    """Load a trained model, without its project and its store.

    ::

        model = outofcore.load_model("models/chess")
        for row in model.predict("game.pgn"):
            print(row["played"], row["best"])

    Parameters
    ----------
    path
        The folder of a run, such as ``runs/first``, the folder ``models/<domain>`` in it, or the ``model.pt`` in that.
    device
        Where the model computes.
    network
        The class of the network, if it is one of your own; in its project, whose params.yaml names it, it is found.

    Returns
    -------
    Model
        The model in evaluation mode.

    Raises
    ------
    StateError
        If there is no model, the file is damaged, or another version of outofcore wrote it.
    ParamsError
        If its domain is not installed, the device does not exist, or the network is one of your own that is neither
        passed nor named by the project.
    """
    if not isinstance(path, str | Path):
        refuse("path", "the folder of a model, such as models/chess", path)
    computes_on = named_device(device)
    file = model_file(Path(path))
    content = read_model(file)
    try:
        identity = parse_json(content["identity"])
        name, parts = str(identity["domain"]), identity["parts"]
        attributes, version = dict(identity["attributes"]), content["version"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise StateError(
            f"{file}: expected a model that says what makes its task, got one of an earlier version; train it again"
        ) from error
    domain = get_domain(name)
    make = domain.planned_task()
    if make is None:
        raise ParamsError(f"{file}: domain {name} makes no task without a store; give its model.py a planned_task")
    try:
        if network is not None:
            allow_network(network, identity["params"]["train"].get("network", ""))
        section = section_of_identity(identity)
        described = (parts or {"": attributes}).items()
        schemas = {part: Schema(rows=(), sequences=(), attributes=stated) for part, stated in described}
        _check_sizes(content["model"], [stated[size] for _, stated in described for size in domain.sizes])
        with torch.device("meta"):  # takes no memory
            planned = make(section, schemas)
        planned.load_state_dict(content["model"], assign=True)
        task = make(section, schemas)
        task.load_state_dict(content["model"])
    except (ValidationError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise StateError(
            f"{file}: expected a model of outofcore {metadata.version('outofcore')}, got one of {version} that does "
            "not fit it; install that version, or train again"
        ) from error
    return Model(domain, section, attributes, tuple(parts) or ("",), task.to(computes_on).eval())


class Model:
    """A trained model; made by :func:`load_model`.

    Attributes
    ----------
    task
        The module of torch, in evaluation mode.
    domain, section
        Its kind of data, and the settings that it was trained with.
    """

    def __init__(
        self, domain: Domain, section: Any, attributes: Mapping[str, Any], parts: tuple[str, ...], task: Task
    ) -> None:
        self.domain, self.section, self.task = domain, section, task
        self._attributes, self._parts = attributes, parts

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.task.parameters())
        return f"Model(domain={self.domain.name!r}, parameters={count:,}, device='{self.task.device}')"

    @property
    def reading(self) -> Reading:
        """What turns the rows of a store into the tensors of its training: ``loader(store, tensors=model.reading)``.

        Without random changes.
        """
        return reading_for("val", self.domain.reading(self._attributes, self.section))

    @torch.no_grad()
    def __call__(self, batch: Batch, session: str | None = None) -> dict[str, Tensor]:
        """What the model expects of a batch of a loader.

        Parameters
        ----------
        batch
            Of ``loader(store, ..., tensors=model.reading)``.
        session
            Neural: the session of the batch, where the model knows several. Without it, the batch has ``part``, the
            number of its session in training, as a loader gives it that reads all of them.

        Returns
        -------
        dict
            Tensors under the keys of the batch that they predict. Chess: ``target`` (batch, classes) probabilities,
            ``value`` (batch,); Go: ``move`` (batch, points + 1) probabilities, and ``value`` and ``score`` (batch,) if
            the model learnt them; text: ``targets`` (batch, seq_len, vocabulary) probabilities; neural: ``robs``
            (batch, neurons) expected responses.

        Raises
        ------
        ParamsError
            If the domain has no predictions, or the session is missing or unknown.
        """
        known = ", ".join(self._parts)
        if session is not None and session not in self._parts:
            refuse("session", f"one of {known}", session)
        if session is None and "part" not in batch and len(self._parts) > 1:
            raise ParamsError(
                f"batch: expected the session that it is of, as in model(batch, session=...), one of {known}"
            )
        if session is not None:
            batch = {**batch, "part": torch.full((len(next(iter(batch.values()))),), self._parts.index(session))}
        return dict(
            self.domain.predict(self.task, {name: tensor.to(self.task.device) for name, tensor in batch.items()})
        )

    def predict(self, raw: str | Path, **options: Any) -> Predictions:
        """Try the model on raw files, read as in training, without filters and splits.

        Parameters
        ----------
        raw
            A file, or a folder, of the kind that the model was trained on: a game, a recording; for text the prompt;
            for chess also a position, as a FEN.
        **options
            Chess and Go: ``best``, the number of moves to list (5). Text: ``tokens`` to write at most (200),
            ``temperature`` (0.8; 0: always the most probable token), ``seed`` (0).

        Returns
        -------
        Predictions
            An iterator over mappings: one per position; per bin and neuron; of the text; per file of Go where the task
            is ``style``, with the ``vector`` of its player.

        Raises
        ------
        RawInputError
            If there is nothing to read, or the model does not know the session.
        ParamsError
            If there is no such option.
        """
        chosen = self._options(options)
        if not isinstance(raw, str | Path):
            refuse("raw", "a file or a folder", raw)
        answer = self.domain.answer(self.task, Path(raw), self.section, chosen)
        if answer is not None:
            return Predictions(iter(answer))
        section = self.domain.unfiltered(self.section)
        splits = SplitSection(val=0.0, test=0.0)
        section = section.model_copy(update={"raw": str(raw), "match": "**/*", "splits": splits})
        folder, figures = TemporaryFolder(), dict[str, float]()
        try:
            rejects, rejected = self._convert(section, folder.path)
            store = self._known(open_store(folder.path / STORE))
        except BaseException:
            folder.remove()
            raise
        return Predictions(self._rows(store, chosen, figures), rejects, rejected, figures, folder)

    def match(self, queries: str | Path, candidates: str | Path, **options: Any) -> Predictions:
        """Compare the players of files with those of other files, by a model of ``go.train.task: style``.

        The vectors of :meth:`predict` are compared by their cosine, after the mean of the candidates is subtracted. The
        players need not be those of training.

        Parameters
        ----------
        queries, candidates
            A file or a folder each, of which a file has the games of a player.
        **options
            ``best``, the number of candidates to list for each query (5); the nearest has place 1.

        Returns
        -------
        Predictions
            ``query``, ``place``, ``candidate`` and ``similarity`` (-1 to 1), a row per query and place.

        Raises
        ------
        ParamsError
            If the model gives no vectors, or there is no such option.
        """
        self.task.require_vectors()
        best = self._options(options).best
        asked, known = self.predict(queries), self.predict(candidates)
        rows = nearest(vectors_of(asked), vectors_of(known), best)
        rejected = Counter(asked.rejected) + Counter(known.rejected)
        return Predictions(rows, [*asked.rejects, *known.rejects][:MOST_REJECTS], rejected)

    def _options(self, options: Mapping[str, Any]) -> Any:
        """Options of :meth:`predict`, checked; raises ParamsError."""
        known = self.domain.prediction_options()
        try:
            return known.model_validate(options)
        except ValidationError as error:
            wrong = error.errors()[0]
            message = f"{wrong['msg'][:1].lower()}{wrong['msg'][1:]}, got {wrong['input']!r}"
            if wrong["type"] == "extra_forbidden":
                message = f"no such option for {self.domain.name}; there are: {', '.join(known.model_fields) or 'none'}"
            raise ParamsError(f"{wrong['loc'][0]}: {message}") from error

    def _convert(self, section: Any, folder: Path) -> tuple[list[dict[str, str]], Counter[str]]:
        """Convert into a store of one split in a folder; returns the first rejected records, and all by reason."""
        rejects, machine = folder / "rejects.csv", replace(load_machine(), engine="threads", scratch=None)
        try:
            convert_to_folder(self.domain, section, folder / STORE, rejects, machine, kept=KEPT_NOTHING)
        except RawInputError as error:
            left_out = _rejected(rejects)
            if not left_out[0]:
                raise
            raise RawInputError(f"{section.raw}: nothing that the model can read; {summary(*left_out)}") from error
        return _rejected(rejects)

    def _known(self, store: Store) -> Store:
        for part in store.parts:
            if part not in self._parts:
                raise RawInputError(
                    f"session {part} was not in training; the model knows {', '.join(self._parts)}: a session is known "
                    "by the name of its file, below the raw folder"
                )
        return store

    def _rows(self, store: Store, options: Any, figures: dict[str, float]) -> Iterator[Row]:
        """Predictions of all parts of a store; ``figures`` are those of its samples, at the end."""
        sums = dict[str, Tensor]()
        reading = reading_for("val", self.domain.reading(store.attributes, self.section))
        for part in store.parts:
            predicted = self._predicted(store, part, reading, sums)
            yield from self.domain.prediction_rows(self.task, store, part, predicted, options, reading)
        if not sums:
            raise RawInputError(
                f"no {self.domain.sequence} is as long as a sample, by {self.domain.name}.tensors of the model"
            )
        figures |= {name: round(value, _DIGITS) for name, value in self.task.summarize(sums).items()}

    @torch.no_grad()
    def _predicted(
        self, store: Store, part: str, reading: Reading, sums: dict[str, Tensor]
    ) -> Iterator[dict[str, Tensor]]:
        device = self.task.device
        needed = reading.window if isinstance(reading, Windowed) else None
        batches: Iterable[Batch] = loader(
            store,
            PREDICTED_SPLIT,
            BATCH,
            shuffle=False,
            window={**needed, "phase": False} if needed else None,
            part=part,
            tensors=self.task.reading_for(device, reading),
            memory=load_machine().memory,
            device=device,
            rank=0,  # each process predicts its own input
            world_size=1,
        )
        for batch in batches:
            if len(self._parts) > 1:
                batch["part"] = torch.full((len(next(iter(batch.values()))),), self._parts.index(part))
            add_sums(sums, self.task, batch)
            yield {name: value.cpu() for name, value in self(batch).items()}


class Predictions(Iterator[Row]):
    """Rows of :meth:`Model.predict` or :meth:`Model.match`, one after the other.

    Attributes
    ----------
    rejects
        The first 1,000 records that were left out: ``file``, ``offset``, ``reason`` and ``detail`` of each.
    rejected
        How many were left out in all, by reason.
    figures
        Once all rows were read, the figures of ``train.json`` for this input; empty for a text.
    """

    def __init__(
        self,
        rows: Iterator[Row],
        rejects: Sequence[Mapping[str, str]] = (),
        rejected: Mapping[str, int] | None = None,
        figures: Mapping[str, float] | None = None,
        folder: TemporaryFolder | None = None,
    ) -> None:
        self.rejects, self.rejected = rejects, {} if rejected is None else rejected
        self.figures = {} if figures is None else figures
        self._rows = rows
        # What was converted is removed with the last row, or with the iterator.
        self._remove = weakref.finalize(self, folder.remove) if folder else None

    def __next__(self) -> Row:
        try:
            return next(self._rows)
        except BaseException:
            if self._remove:
                self._remove()
            raise


def summary(rejects: Sequence[Mapping[str, str]], rejected: Mapping[str, int]) -> str:
    """The rejected records in one line, of which there is at least one."""
    first = rejects[0]
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in rejected.items())
    where = f"{first['file']}, byte {first['offset']}, {first['reason']} {first['detail']}"
    return f"{sum(rejected.values()):,} left out ({reasons}); the first: {' '.join(where.split())}"


def _rejected(table: Path) -> tuple[list[dict[str, str]], Counter[str]]:
    """The first rejected records of a table, and how many there are by reason."""
    if not table.is_file():
        return [], Counter()
    with table.open(encoding="utf-8", newline="") as lines:
        rejects = csv.DictReader(lines)
        first = list(islice(rejects, MOST_REJECTS))
        return first, Counter(reject["reason"] for reject in chain(first, rejects))


def _check_sizes(saved: Mapping[str, Tensor], sizes: Sequence[int]) -> None:
    """Raise KeyError for a size of which there are fewer weights: it is not that of this model."""
    if sizes and max(sizes) > sum(tensor.numel() for tensor in saved.values()):
        raise KeyError(max(sizes))
