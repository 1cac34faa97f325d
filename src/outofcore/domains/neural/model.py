"""The neural task: predict the responses in each bin from the preceding frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from outofcore.domains.neural.encoder import Encoder, SessionShape
from outofcore.domains.neural.gallery import filter_pictures
from outofcore.domains.neural.metrics import bits_per_spike, correlation, explainable
from outofcore.domains.neural.params import COVARIATES, NeuralSection
from outofcore.domains.neural.tensors import prepare
from outofcore.domains.neural.transforms import transformed_shape
from outofcore.domains.neural.unit_table import held_out
from outofcore.domains.task import Batch, Task, doubles, note
from outofcore.errors import ParamsError
from outofcore.ndarrays import Doubles, Ints

if TYPE_CHECKING:
    from outofcore.store.reader import Store
    from outofcore.store.schema import Schema

# At most about this many sums of repeated bins and neurons are kept, of bins evenly chosen from all sessions.
MOST_REPEATS = 1 << 18
# Number of classes of predictions, starting at LOWEST standard deviations above the mean, STEP apart.
CLASSES, LOWEST, STEP = 40, -2.0, 0.125
# Below this share of the mean, a standard deviation is rounding error of a constant.
CONSTANT = 1e-6
# Responses are read in passes of so many bins before the model is built.
ROWS_AT_ONCE = 4096


def make_task(store: Store, section: NeuralSection, evaluated: Store, split: str) -> NeuralTask:
    """The task of a store; raises ParamsError if the settings do not fit what is stored."""
    sessions, repeated, counted = [], [], 0
    for part in store.parts:
        figures, count = moments(store, part, section)
        counted += count
        sessions.append(_shape(part, store.part_attributes(part), section, figures))
        repeated.append(repeated_conditions(evaluated, split, part))
    if not counted:
        raise ParamsError(
            "neural: no response of the train split counts, so there is nothing to learn from; the figures of the "
            "conversion count the bins by reason, as bins_without_response_masked"
        )
    if sessions[0].pixels:
        _note_small_pixels(store, section)
    return NeuralTask(tuple(sessions), section, tuple(repeated))


def _note_small_pixels(store: Store, section: NeuralSection) -> None:
    """Name a session whose first frames hold only 0 and 1, which a division by 255 makes almost equal."""
    if section.tensors.cast == "none" or section.tensors.transforms:
        return
    for part in store.parts:
        frames = store.rows("train", part)["stim"]
        first = frames.read(0, min(len(frames), frames.chunk_rows))
        if first.dtype == np.uint8 and first.max(initial=0) == 1:
            note(
                f"neural.tensors.cast: {section.tensors.cast} divides pixels by 255, and the first "
                f"{len(first):,} frames of {part} hold only 0 and 1; cast: none keeps them as they are"
            )
            return


def planned_task(section: NeuralSection, schemas: Mapping[str, Schema]) -> NeuralTask:
    """The task before there is a store, for neurons that respond alike."""
    sessions = (_shape(part, schema.attributes, section, {}) for part, schema in schemas.items())
    return NeuralTask(tuple(sessions), section)


def _shape(
    part: str, attributes: Mapping[str, Any], section: NeuralSection, moments: Mapping[str, tuple[float, ...]]
) -> SessionShape:
    try:
        frame = transformed_shape(tuple(attributes["frame_shape"]), section.tensors.transforms)
    except ValueError as error:
        raise ParamsError(f"neural.tensors.transforms: session {part}: {error}") from error
    apart = held_out(section.train.held_out, part, attributes)
    units = attributes.get("unit_columns", {})
    neurons, covariates = attributes["neurons"], attributes["behaviors"]
    return SessionShape(part, frame, neurons, covariates, units=units, held_out=apart, **moments)


class NeuralTask(Task):
    """A core shared by all sessions and one readout per session.

    The loss of a response is the negative Poisson log-likelihood, rate - response * ln(rate), or the squared error; its
    count is the number of unmasked responses. ``sessions`` follow the order of the store's parts; ``repeated`` lists
    for each session the conditions whose repeats are compared in validation.
    """

    def __init__(
        self,
        sessions: tuple[SessionShape, ...],
        section: NeuralSection,
        repeated: tuple[Ints, ...] = (),
    ) -> None:
        super().__init__()
        self.sessions, self.section = sessions, section
        train, tensors = section.train, section.tensors
        if len({session.planes for session in sessions}) > 1 and train.has_core:
            raise ParamsError(
                "neural.train.preset: a shared core needs sessions whose frames have as many planes as each other"
            )
        bins = tensors.history + (train.held_out is not None)
        if not sessions[0].pixels and train.has_core:
            network = train.network if ":" in train.network else train.preset
            raise ParamsError(
                f"neural.train: {network} is of frames, and there is no stimulus: set preset to test, without network"
            )
        if not (sessions[0].pixels or bins or sessions[0].covariates):
            names = " or ".join(f"source.names.{role.field}" for role in COVARIATES)
            raise ParamsError(
                "neural.train: no stimulus, so nothing to predict from: set tensors.history or train.held_out, or "
                f"convert again with {names}"
            )
        self.poisson = train.loss == "poisson"
        self.partly_used = len(sessions) > 1
        self.encoder = Encoder(
            sessions, tensors.lags, train.preset, positive=self.poisson, history=bins, network=train.network
        )
        self.first_neuron = np.cumsum([0, *(session.neurons for session in sessions)]).tolist()
        self._repeated = _evenly_chosen(repeated or (np.empty(0, np.int64),) * len(sessions), sessions)
        cells = [
            len(conditions) * session.neurons for conditions, session in zip(self._repeated, sessions, strict=True)
        ]
        self.first_cell: list[int] = np.cumsum([0, *cells]).tolist()

    def loader_options(self) -> dict[str, Any]:
        """One session per batch."""
        return {"part": tuple(session.name for session in self.sessions)}

    def predict(self, batch: Batch) -> tuple[Tensor, int]:
        """Expected responses (batch, neurons) float32, and the session of the batch."""
        session = int(batch["part"][0]) if "part" in batch else 0
        stim = prepare(batch["stim"], self.section.tensors) if "stim" in batch else None
        history = batch.get("history")
        if self.sessions[session].held_out:
            seen = [series.float() for series in (history, batch["robs"].unsqueeze(1)) if series is not None]
            history = torch.cat(seen, 1)
        series = [batch[role.field] for role in COVARIATES if role.field in batch]
        return self.encoder(stim, session, torch.cat(series, 1) if series else None, history), session

    def _mask(self, batch: Batch, session: int) -> Tensor:
        """Where responses count and are predicted, (batch, neurons) float32."""
        mask = batch["dfs"].float()
        return mask.index_fill(1, self.encoder.inputs(session), 0) if self.sessions[session].held_out else mask

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sum over the unmasked responses, and their number."""
        rate, session = self.predict(batch)
        response, mask = batch["robs"].float(), self._mask(batch, session)
        losses = rate - response * rate.log() if self.poisson else (rate - response).square()
        return (losses * mask).sum(), mask.sum()

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Sums per neuron over all sessions (neurons,), and per repeated condition (conditions x neurons,)."""
        rate, session = self.predict(batch)
        rate, response, mask = doubles(rate), doubles(batch["robs"]), doubles(self._mask(batch, session))
        addends = {
            "bins": mask,
            "responses": response * mask,
            "squares": response.square() * mask,
            "rates": rate * mask,
            "rate_squares": rate.square() * mask,
            "products": rate * response * mask,
            "log_likelihood": (response * rate.log() - rate if self.poisson else rate * 0) * mask,
            "errors": (rate - response).square() * mask,
        }
        first, last = self.first_neuron[session : session + 2]
        totals = torch.zeros(len(addends), self.first_neuron[-1], dtype=torch.float64, device=rate.device)
        totals[:, first:last] = torch.stack([addend.sum(0) for addend in addends.values()])
        scaled = self._by_class(session, rate, response, mask)
        return {**dict(zip(addends, totals, strict=True)), **scaled, **self._by_condition(session, batch, addends)}

    def _by_class(self, session: int, rate: Tensor, response: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Responses and predictions in standard deviations from the mean, summed by class of prediction."""
        # Of the weights: a model that is loaded without its store has no other.
        mean, spread = (doubles(self.encoder.get_buffer(f"{name}_{session}")) for name in ("mean", "spread"))
        spread = spread.clamp(min=1e-9)
        predicted, recorded = ((responses - mean) / spread for responses in (rate, response))
        place = ((predicted - LOWEST) / STEP).floor().clamp(0, CLASSES - 1).long() + session * CLASSES
        total = torch.zeros(3, len(self.sessions) * CLASSES, dtype=torch.float64, device=rate.device)
        for row, addend in zip(total, (mask, predicted * mask, recorded * mask), strict=True):
            row.index_add_(0, place.flatten(), addend.flatten())
        return {"class_count": total[0], "class_predicted": total[1], "class_recorded": total[2]}

    def _by_condition(self, session: int, batch: Batch, addends: Mapping[str, Tensor]) -> dict[str, Tensor]:
        known = self._repeated[session]
        device = addends["bins"].device
        sums = {name: torch.zeros(self.first_cell[-1], dtype=torch.float64, device=device) for name in REPEATS}
        if len(known) and "condition" in batch:
            condition = batch["condition"].cpu().numpy()
            place = np.minimum(np.searchsorted(known, condition), len(known) - 1)
            repeated = torch.from_numpy(np.flatnonzero(known[place] == condition)).to(device)
            row = torch.from_numpy(place).to(device)[repeated]
            first, last = self.first_cell[session : session + 2]
            for name, source in REPEATS.items():
                sums[name][first:last].view(len(known), -1).index_add_(0, row, addends[source][repeated])
        return sums

    def summarize(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Metrics over all neurons, each with the value that predicting the mean gives.

        ``bits_per_spike`` (0 for predicting the mean) is over all neurons together, ``bits_per_spike_median`` the
        median neuron; ``correlation`` is the mean over the neurons that have one, out of ``neurons``; ``squared_error``
        is reported with that of each neuron's mean; ``explainable_variance`` and ``correlation_to_average`` are means
        over the neurons with repeats, ``fraction_explained`` and ``normalised_correlation`` over those with an
        explainable share of at least 0.15. Metrics without data are left out.
        """
        plain = {name: value.cpu().double().numpy() for name, value in sums.items()}
        related = correlation(plain)
        spread = plain["squares"] - plain["responses"] ** 2 / np.maximum(plain["bins"], 1)
        total = max(plain["bins"].sum(), 1)
        figures = {
            "neurons": float(sum(len(session.predicted) for session in self.sessions)),
            "correlation": _mean(related),
            "neurons_with_correlation": float(np.isfinite(related).sum()),
            "squared_error": float(plain["errors"].sum() / total),
            "squared_error_mean_response": float(spread.sum() / total),
            "loss": float((-plain["log_likelihood"] if self.poisson else plain["errors"]).sum() / total),
        }
        if self.poisson:
            figures["bits_per_spike"], by_neuron = bits_per_spike(plain)
            if np.isfinite(by_neuron).any():
                figures["bits_per_spike_median"] = float(np.nanmedian(by_neuron))
        if self.first_cell[-1]:
            figures |= self._repeats(plain)
        return {name: value for name, value in figures.items() if math.isfinite(value)}

    def _repeats(self, plain: Mapping[str, Doubles]) -> dict[str, float]:
        results = []
        for number, known in enumerate(self._repeated):
            if not len(known):
                continue
            cells = slice(*self.first_cell[number : number + 2])
            sums = {name.removeprefix("repeat_"): plain[name][cells].reshape(len(known), -1) for name in REPEATS}
            results.append(explainable(sums))
        share, explained, average, normalised = (
            np.concatenate([result[name] for result in results])
            for name in ("share", "explained", "average", "normalised")
        )
        reliable = share >= RELIABLE
        return {
            "explainable_variance": _mean(share),
            "fraction_explained": _mean(explained[reliable]),
            "correlation_to_average": _mean(average),
            "normalised_correlation": _mean(normalised[reliable]),
            "neurons_reliable": float(reliable.sum()),
        }

    def plots(self, sums: Mapping[str, Tensor]) -> dict[str, list[dict[str, float | str]]]:
        """Recorded against predicted responses, in standard deviations from the mean; correlation of each neuron."""
        plain = {name: value.cpu().double().numpy() for name, value in sums.items()}
        related = correlation(plain)
        responses: list[dict[str, float | str]] = []
        neurons: list[dict[str, float | str]] = []
        for number, session in enumerate(self.sessions):
            classes = slice(number * CLASSES, (number + 1) * CLASSES)
            columns = [plain[f"class_{name}"][classes].tolist() for name in ("count", "predicted", "recorded")]
            responses += [
                {"session": session.name, "predicted": predicted / count, "recorded": recorded / count}
                | {"responses": count}
                for count, predicted, recorded in zip(*columns, strict=True)
                if count
            ]
            first = self.first_neuron[number]
            neurons += [
                {"session": session.name, "neuron": float(neuron), **session.unit(neuron)}
                | {"correlation": float(related[first + neuron])}
                for neuron in session.predicted
            ]
        return {"responses": responses, "neurons": neurons}

    def pictures(self) -> dict[str, bytes]:
        """Filters of the neurons of each session, or of the first layer of the core."""
        return {f"filters_{name}": sheet for name, sheet in filter_pictures(self.encoder.filters()).items()}


REPEATS = {"repeats": "bins"} | {f"repeat_{name}": name for name in ("responses", "squares", "errors", "rates")}
"""Sums by repeated condition, and the sums by neuron that include them."""

RELIABLE = 0.15
"""Least explainable share of a neuron whose fraction explained counts; below, the divisor is almost zero."""


def _evenly_chosen(repeated: Sequence[Ints], sessions: Sequence[SessionShape]) -> list[Ints]:
    """Repeated conditions of each session, all or an even choice, so that about MOST_REPEATS sums suffice."""
    cells = sum(len(conditions) * session.neurons for conditions, session in zip(repeated, sessions, strict=True))
    if cells <= MOST_REPEATS:
        return list(repeated)
    numbers = [-(-len(conditions) * MOST_REPEATS // cells) for conditions in repeated]
    note(
        f"explainable variance is measured in {sum(numbers):,} of {sum(map(len, repeated)):,} repeated bins, evenly "
        "chosen: for all of them, the sums of each neuron would take too much memory"
    )
    return [
        conditions[np.arange(number) * len(conditions) // max(number, 1)]
        for conditions, number in zip(repeated, numbers, strict=True)
    ]


def _mean(values: Doubles) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


def moments(store: Store, part: str, section: NeuralSection) -> tuple[dict[str, tuple[float, ...]], int]:
    """Means and standard deviations in the train split, and how many responses count there.

    ``mean`` and ``spread`` (neurons,) are those of the unmasked responses; ``covariate_mean`` and ``covariate_spread``
    (columns,), where there are covariates, those of the bins in which a response counts.
    """
    table = store.rows("train", part)
    covariates = [role.field for role in COVARIATES if role.field in table.fields]
    sums = {name: np.zeros((3, table[name].shape[1])) for name in ("robs", *covariates)}
    lowest = 0.0
    for rows in table.blocks(ROWS_AT_ONCE, "dfs", *sums):
        mask = rows["dfs"] != 0
        lowest = min(lowest, float(rows["robs"].min(initial=0, where=mask)))
        for name in sums:
            counts = mask if name == "robs" else mask.any(1, keepdims=True)
            values = np.where(counts, rows[name].astype(np.float64), 0)
            number = np.broadcast_to(counts, values.shape).sum(0)
            sums[name] += np.stack([number, values.sum(0), (values**2).sum(0)])
    if lowest < 0 and section.train.loss == "poisson":
        raise ParamsError(
            f"neural.train.loss: poisson needs counts or rates, and session {part} has a response of {lowest:g}; "
            "set it to squared"
        )
    means, spreads = {}, {}
    for name, (number, total, squares) in sums.items():
        count = np.maximum(number, 1)
        means[name] = mean = total / count
        spreads[name] = np.sqrt(np.maximum(squares / count - mean**2, 0))
    statistics = {"mean": tuple(means["robs"].tolist()), "spread": tuple(spreads["robs"].tolist())}
    if covariates:
        mean, spread = (np.concatenate([figures[name] for name in covariates]) for figures in (means, spreads))
        spread = np.where(spread > CONSTANT * np.abs(mean), spread, 1)  # what is constant there is not scaled
        statistics |= {"covariate_mean": tuple(mean.tolist()), "covariate_spread": tuple(spread.tolist())}
    return statistics, int(sums["robs"][0].sum())


def repeated_conditions(store: Store, split: str, part: str) -> Ints:
    """Conditions with at least two repeats in a split, ascending."""
    counts = np.zeros(int(store.part_attributes(part)["conditions"]), np.int64)
    for rows in store.rows(split, part).blocks(ROWS_AT_ONCE * 16, "condition") if len(counts) else ():
        counts += np.bincount(rows["condition"][rows["condition"] >= 0], minlength=len(counts))
    return np.flatnonzero(counts > 1)
