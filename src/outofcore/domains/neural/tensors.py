"""Stored bins to tensors: windows of frames in their stored type, and the responses of the last bin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from outofcore.domains.neural.params import COVARIATES, NeuralSection, TensorSection
from outofcore.domains.neural.transforms import apply
from outofcore.domains.reading import Draws


@dataclass(frozen=True)
class NeuralReading:
    """Windows of bins as tensors."""

    section: TensorSection
    fields: tuple[str, ...]  # row fields to read
    bfloat16: bool = False  # frames are stored as bfloat16

    @property
    def window(self) -> dict[str, Any]:
        """Bins per sample, inside one run of a trial."""
        bins = self.section.window if "stim" in self.fields else self.section.history + 1
        return {"length": bins, "mode": "never"}

    def __call__(self, rows: Mapping[str, npt.NDArray[Any]], draws: Draws) -> dict[str, Tensor]:
        """Turn windows into tensors without copying or widening the frames.

        Rows are ``stim`` (batch, window, ...) as stored, ``robs`` and ``dfs`` (batch, window, neurons), ``behavior``
        (batch, window, variables), ``condition`` (batch, window); without the second axis if a window is one bin. The
        result has ``stim`` (batch, frames, height, width), and of the last bin ``robs`` (batch, neurons), ``dfs``
        (batch, neurons) uint8, ``behavior`` (batch, variables) and ``condition`` (batch,). Where ``section.history`` is
        not 0, ``history`` (batch, history, neurons) has the responses before that bin. Without a stimulus there is no
        ``stim``, and the window is the history and that bin. ``draws`` is unused.
        """
        del draws
        tensors = {name: torch.from_numpy(rows[name]) for name in self.fields}
        others = {name: tensors[name] for name in self.fields if name != "stim"}
        single = self.window["length"] == 1
        last = others if single else {name: values[:, -1] for name, values in others.items()}
        if self.section.history:
            last["history"] = tensors["robs"][:, -1 - self.section.history : -1]
        if "stim" not in self.fields:
            return last
        stim = tensors["stim"].view(torch.bfloat16) if self.bfloat16 else tensors["stim"]
        return {"stim": stim.unsqueeze(1) if single else stim[:, -self.section.frames :], **last}


def make_reading(store_attributes: Mapping[str, Any], section: NeuralSection) -> NeuralReading:
    source = store_attributes["params"]["source"]
    fields = ["robs", "dfs", "condition"]
    if source["names"]["stimulus"] is not None:
        fields.insert(0, "stim")
    fields += [role.field for role in COVARIATES if source["names"].get(role.field) is not None]
    return NeuralReading(section.tensors, tuple(fields), bfloat16=source["stimulus_dtype"] == "bfloat16")


def prepare(stim: Tensor, section: TensorSection) -> Tensor:
    """Transform and cast a batch of windows on their device.

    ``stim`` (batch, window, ..., height, width) becomes (batch, lags, ..., height, width) in float32; the
    last lag is the predicted bin.
    """
    return cast_frames(apply(stim, section.transforms, time=1), section)


def cast_frames(stim: Tensor, section: TensorSection) -> Tensor:
    """Pixels in float32; uint8 according to ``section.cast``, others unscaled."""
    wide = stim.float()
    if stim.dtype != torch.uint8 or section.cast == "none":
        return wide
    return wide.sub_(127).div_(255) if section.cast == "centred" else wide.div_(255)
