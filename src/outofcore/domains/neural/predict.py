"""A trained neural model, tried on recordings: the response that it expects of each neuron in each bin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from torch import Tensor

from outofcore.domains.domain import PREDICTED_SPLIT, Row, Section
from outofcore.domains.neural.encoder import SessionShape
from outofcore.domains.neural.model import NeuralTask
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.tensors import NeuralReading
from outofcore.domains.neural.transforms import transformed_shape
from outofcore.domains.task import Batch
from outofcore.errors import RawInputError
from outofcore.store.reader import Store


def predict(task: NeuralTask, batch: Batch) -> dict[str, Tensor]:
    """Expected responses (batch, neurons) as ``robs``."""
    return {"robs": task.predict(batch)[0]}


def unfiltered(section: NeuralSection) -> NeuralSection:
    """The section of a conversion that needs no tier of the trials, which is for splits alone."""
    names = section.source.names.model_copy(update={"tier": None})
    return section.model_copy(update={"source": section.source.model_copy(update={"names": names})})


def rows(
    task: NeuralTask,
    store: Store,
    part: str,
    predicted: Iterable[Mapping[str, Tensor]],
    options: Section,
    reading: NeuralReading,
) -> Iterator[Row]:
    """A row per bin and neuron; the response is None where it does not count.

    Bins without enough frames before them, at the beginning of a trial, have no row. Raises RawInputError if the
    session's shape is not that of training.
    """
    del options
    shape = _known_shape(task, store, part)
    table, trials = store.rows(PREDICTED_SPLIT, part), store.sequences(PREDICTED_SPLIT, part)
    window = reading.window["length"]
    starts, lengths, labels, offsets = (trials[name].read() for name in ("start", "length", "trial", "offset"))
    samples = np.maximum(lengths - window + 1, 0)
    trial = np.repeat(np.arange(len(samples)), samples)  # of each sample
    place = np.arange(len(trial)) - np.repeat(np.cumsum(samples) - samples, samples) + window - 1  # of its last bin
    first = 0
    for prediction in predicted:
        rates = prediction["robs"].float().tolist()
        span = slice(first, first + len(rates))
        first += len(rates)
        row = starts[trial[span]] + place[span]
        low, high = int(row.min()), int(row.max()) + 1  # a chunk is decoded once
        responses, counted = (table[name].read(low, high)[row - low].tolist() for name in ("robs", "dfs"))
        bins = zip(trial[span].tolist(), place[span].tolist(), rates, responses, counted, strict=True)
        for number, bin_, rate, response, counts in bins:
            for neuron in shape.predicted:
                yield {
                    "session": part,
                    "trial": int(labels[number]),
                    "bin": int(offsets[number]) + bin_,
                    "neuron": neuron,
                    **shape.unit(neuron),
                    "rate": rate[neuron],
                    "response": response[neuron] if counts[neuron] else None,
                }


def _known_shape(task: NeuralTask, store: Store, part: str) -> SessionShape:
    """The session as the model knows it, which the store's must equal."""
    (known,) = (session for session in task.sessions if session.name == part)
    attributes = store.part_attributes(part)
    shape = transformed_shape(tuple(attributes["frame_shape"]), task.section.tensors.transforms)
    stored = {"neurons": attributes["neurons"], "covariates": attributes["behaviors"], "frame": shape}
    for name, value in stored.items():
        if value != getattr(known, name):
            raise RawInputError(
                f"session {part}: expected {name} {getattr(known, name)}, as in training, got {value}; a session that "
                "the model does not know needs another name"
            )
    return known
