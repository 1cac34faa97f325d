"""Recommended settings by memory of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from outofcore.domains.text.params import TextSection

BATCH_SIZE = 64


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Recommended settings for a class of machines."""

    machine: str  # description
    memory: int  # least bytes of memory of such a machine
    preset: Literal["small", "medium", "large"]
    seq_len: int
    optimizer: Literal["adamw", "adamw8bit"]
    precision: Literal["32-true", "bf16-mixed"]
    shuffle_windows: int
    micro_batch: int  # for machine.yaml; the others are for params.yaml with a ``batch_size`` of 64

    def applied(self, section: TextSection) -> TextSection:
        """A section with these settings."""
        train = {"preset": self.preset, "parameters": None, "optimizer": self.optimizer, "precision": self.precision}
        changes = {
            "tensors": section.tensors.model_copy(update={"seq_len": self.seq_len, "stride": None}),
            "stream": section.stream.model_copy(update={"shuffle_windows": self.shuffle_windows}),
            "train": section.train.model_copy(update=train | {"batch_size": BATCH_SIZE}),
        }
        return section.model_copy(update=changes)


ADVICE = (
    Advice(
        machine="below 8 GB",
        memory=4 * 10**9,
        preset="small",
        seq_len=256,
        optimizer="adamw8bit",
        precision="32-true",
        shuffle_windows=5_000,
        micro_batch=8,
    ),
    Advice(
        machine="8 to 16 GB",
        memory=8 * 10**9,
        preset="medium",
        seq_len=512,
        optimizer="adamw",
        precision="32-true",
        shuffle_windows=20_000,
        micro_batch=16,
    ),
    Advice(
        machine="above 16 GB",
        memory=16 * 10**9,
        preset="large",
        seq_len=512,
        optimizer="adamw",
        precision="32-true",
        shuffle_windows=100_000,
        micro_batch=16,
    ),
    Advice(
        machine="an accelerator of 16 GB",
        memory=16 * 10**9,
        preset="large",
        seq_len=1024,
        optimizer="adamw",
        precision="bf16-mixed",
        shuffle_windows=100_000,
        micro_batch=8,
    ),
)
"""Settings by hardware; the tests hold each to half of its machine's memory."""
