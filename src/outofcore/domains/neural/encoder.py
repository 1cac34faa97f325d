"""Encoders: from a window of frames to the expected response of each neuron of a session."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from outofcore.domains.neural.metrics import LEAST_RATE
from outofcore.domains.own_network import own_network


@dataclass(frozen=True)
class SessionShape:
    """What an encoder needs to know about a session."""

    name: str  # part of the store
    frame: tuple[int, ...]  # shape of a frame as the model sees it, height and width last
    neurons: int
    covariates: int  # columns of the series recorded next to the responses, one after the other
    mean: tuple[float, ...] = ()  # (neurons,) response in the train split: the model's starting point; empty: 1
    spread: tuple[float, ...] = ()  # (neurons,) standard deviation in the train split; empty: 1
    covariate_mean: tuple[float, ...] = ()  # (covariates,) in the train split; empty: 0
    covariate_spread: tuple[float, ...] = ()  # (covariates,) standard deviation in the train split; empty: 1
    units: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # columns of the table of units, (neurons,) each
    held_out: tuple[int, ...] = ()  # neurons that are predicted from the others; empty: all are, from all

    def unit(self, neuron: int) -> dict[str, Any]:
        """What the table of units has on a neuron."""
        return {name: column[neuron] for name, column in self.units.items()}

    @property
    def predicted(self) -> Sequence[int]:
        """The neurons whose responses are predicted."""
        return self.held_out or range(self.neurons)

    @property
    def pixels(self) -> int:
        """Numbers per frame: 0 where there is no stimulus."""
        return math.prod(self.frame)

    @property
    def planes(self) -> int:
        """Planes per lag: 1, or the number of colours."""
        return math.prod(self.frame[:-2])


PRESETS: dict[str, tuple[tuple[int, int], ...]] = {
    "test": (),
    "small": ((16, 7), (16, 5)),
    "medium": ((32, 9), (32, 5), (32, 5)),
    "large": ((64, 11), (64, 5), (64, 5), (64, 3)),
}
"""Channels and kernel of each layer of the core; none: each neuron is a linear filter with a nonlinearity."""


# Adam moves each weight by about the learning rate, however many there are, and large frames would be overshot from the
# first step on: so filters count by the root of their size. The factor makes a learning rate of 0.01 suit them.
STRIDE = 10.0

# A spike of a neuron that seldom fires is many standard deviations, so that a weight which is noise would move the rate
# by hundreds of spikes. Variance by mean is the size of a spike: responses before count by at least this share of it.
RARE = 0.3


class Core(nn.Module):
    """Convolutions shared by all sessions, over lags times planes; ``layers`` are channels and kernel sizes."""

    def __init__(self, channels: int, layers: tuple[tuple[int, int], ...]) -> None:
        super().__init__()
        steps: list[nn.Module] = []
        for width, kernel in layers:
            steps += [nn.Conv2d(channels, width, kernel, padding=kernel // 2), nn.GroupNorm(1, width), nn.SiLU()]
            channels = width
        self.steps = nn.Sequential(*steps)
        self.channels = channels

    def forward(self, frames: Tensor) -> Tensor:
        """(batch, lags x planes, height, width) to (batch, channels, height, width)."""
        result: Tensor = self.steps(frames)
        return result


class FactorizedReadout(nn.Module):
    """A spatial mask and channel weights per neuron."""

    def __init__(self, session: SessionShape, channels: int) -> None:
        super().__init__()
        self.pixels = session.frame[-2] * session.frame[-1]
        self.place = nn.Parameter(1 + torch.randn(1, self.pixels).repeat(session.neurons, 1) * 0.1)
        self.mixture = nn.Parameter(torch.randn(session.neurons, channels) / math.sqrt(channels))

    def forward(self, features: Tensor) -> Tensor:
        """(batch, channels, height, width) to (batch, neurons): mean over pixels, weighted by the mask."""
        at_place = features.flatten(2) @ (self.place.T / self.pixels)
        return (at_place * self.mixture.T).sum(1)


class LinearReadout(nn.Module):
    """A filter per neuron, over all lags and pixels or over what neurons did before."""

    def __init__(self, neurons: int, inputs: int) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.zeros(neurons, inputs))

    def forward(self, features: Tensor) -> Tensor:
        """(batch, ...) to (batch, neurons)."""
        return functional.linear(features.flatten(1), self.filters) * (STRIDE / math.sqrt(self.filters.shape[1]))


class Encoder(nn.Module):
    """A shared core and one readout per session.

    With a core, all sessions need the same number of planes. ``preset`` is a key of :data:`PRESETS`; ``network``, if it
    names a class, makes the core: of ``lags`` and ``planes``, it turns frames (batch, lags x planes, height, width)
    float32 into features (batch, channels, height, width), and has ``channels`` as an attribute. ``positive``
    applies softplus, bounded below by :data:`outofcore.domains.neural.metrics.LEAST_RATE`. ``history`` bins of the
    responses of all neurons that are seen add a linear term: coupling filters, in the diagonal those of a neuron's own
    history.
    """

    def __init__(
        self,
        sessions: tuple[SessionShape, ...],
        lags: int,
        preset: str,
        *,
        positive: bool,
        history: int = 0,
        network: str = "",
    ) -> None:
        super().__init__()
        self.sessions, self.lags, self.positive = sessions, lags, positive
        layers, planes, size = PRESETS[preset], sessions[0].planes, sessions[0].frame[-2:]
        self.core: Any = Core(lags * planes, layers)
        if ":" in network:
            frames = ((lags * planes, *size), torch.float32)
            self.core = own_network(
                network, (frames,), lambda core: ((core.channels, *size),), lags=lags, planes=planes
            )
        self.readouts = nn.ModuleList(
            FactorizedReadout(session, self.core.channels)
            if layers or ":" in network
            else LinearReadout(session.neurons, lags * session.pixels)
            for session in sessions
            if session.pixels
        )
        self.histories = nn.ModuleList(
            LinearReadout(session.neurons, history * (session.neurons - len(session.held_out)))
            for session in sessions
            if history
        )
        self.behaviors = nn.ModuleList(  # of all covariates; named so in the files of models
            nn.Linear(session.covariates, session.neurons, bias=False) if session.covariates else nn.Identity()
            for session in sessions
        )
        for layer in self.behaviors:
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.weight)
        self.biases = nn.ParameterList(nn.Parameter(self._start(session)) for session in sessions)
        for number, session in enumerate(sessions):
            self.register_buffer(f"mean_{number}", _values(session.mean, session.neurons, 1.0))
            self.register_buffer(f"spread_{number}", _values(session.spread, session.neurons, 1.0))
            if session.held_out:
                seen = np.setdiff1d(np.arange(session.neurons), session.held_out)
                self.register_buffer(f"inputs_{number}", torch.tensor(seen), persistent=False)
            if session.covariates:
                mean = _values(session.covariate_mean, session.covariates, 0.0)
                self.register_buffer(f"behavior_mean_{number}", mean)
                spread = _values(session.covariate_spread, session.covariates, 1.0)
                self.register_buffer(f"behavior_spread_{number}", spread)

    def forward(
        self, stim: Tensor | None, session: int, covariates: Tensor | None = None, history: Tensor | None = None
    ) -> Tensor:
        """Expected responses (batch, neurons) float32 to ``stim`` (batch, lags, ..., height, width), cast.

        ``covariates`` is (batch, columns), ``history`` (batch, history, neurons).
        """
        drive: Tensor = self.biases[session]
        if stim is not None:
            drive = self.readouts[session](self.core(stim.flatten(1, -3))).float() + drive
        average, unit = self.get_buffer(f"mean_{session}"), self.get_buffer(f"spread_{session}")
        if history is not None:
            scale = unit
            if self.positive:
                scale = torch.maximum(unit, RARE * unit.square() / average.clamp(min=LEAST_RATE))
            past = (history.float() - average) / scale.clamp(min=LEAST_RATE)
            if self.sessions[session].held_out:
                past = past.index_select(2, self.inputs(session))
            drive = drive + self.histories[session](past).float()
        if covariates is not None and self.sessions[session].covariates:
            # In its own unit: a pupil of 850 pixels would be a drive of hundreds.
            mean, spread = self.get_buffer(f"behavior_mean_{session}"), self.get_buffer(f"behavior_spread_{session}")
            drive = drive + self.behaviors[session]((covariates - mean) / spread).float()
        if self.positive:
            return functional.softplus(drive) + LEAST_RATE
        # In the neuron's own unit: traces range from percent to thousands.
        response: Tensor = average + unit * drive
        return response

    def inputs(self, session: int) -> Tensor:
        """The neurons whose responses are seen, where others are held out."""
        return self.get_buffer(f"inputs_{session}")

    def filters(self) -> dict[str, Tensor]:
        """Filters for display, lags in order of time: of each session, or of the core's first layer."""
        if not isinstance(self.core, Core):
            return {}
        first = next((step for step in self.core.steps if isinstance(step, nn.Conv2d)), None)
        if first is not None:
            kernels = first.weight.detach()
            return {"core": kernels.reshape(len(kernels), self.lags, -1, *kernels.shape[-2:])}
        filters = {}
        for session, readout in zip(self.sessions, self.readouts, strict=bool(self.readouts)):
            assert isinstance(readout, LinearReadout)
            shape = (self.lags, session.planes, *session.frame[-2:])
            filters[session.name] = readout.filters.detach().reshape(session.neurons, *shape)
        return filters

    def _start(self, session: SessionShape) -> Tensor:
        """Biases with which a model without filters predicts the means."""
        mean = _values(session.mean, session.neurons, 1.0).float()
        if not self.positive:
            return torch.zeros_like(mean)
        # The inverse of softplus, of which the usual form is infinite from 89 on.
        drawn = (mean.double() - LEAST_RATE).clamp(min=LEAST_RATE)
        return (drawn + torch.log(-torch.expm1(-drawn))).float()


def _values(values: tuple[float, ...], count: int, default: float) -> Tensor:
    return torch.tensor(values) if values else torch.full((count,), default)
