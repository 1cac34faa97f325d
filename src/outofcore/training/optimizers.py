"""Optimizers by name, including one with 8-bit states, their learning rate, and a step."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from outofcore.domains.sections import TrainSection
from outofcore.domains.task import Batch
from outofcore.system.extras import load
from outofcore.training.ranks import add_up

# Of 8-bit states: values of a tensor that share a scale, and values of the smallest tensor that has them.
BLOCK, SMALLEST = 256, 4096


def make_optimizer(
    model: nn.Module,
    name: str,
    *,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Optimizer:
    """The optimizer of a model's trainable parameters; biases and norm scales (one axis) do not decay.

    ``adamw`` (Loshchilov & Hutter 2019), or ``adamw8bit``: the same with both moments in blockwise 8 bits (Dettmers et
    al. 2022), a quarter of the memory, for tensors of at least 4,096 values. Raises ParamsError if its package is not
    installed.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    # Unfused square roots are MKL's, whose last bit differs between processors whatever its settings.
    make = partial(torch.optim.AdamW, fused=True) if name == "adamw" else _adamw8bit()
    return make([group for group in groups if group["params"]], lr=learning_rate, betas=betas)


def learning_rate(section: TrainSection, steps: int, step: int) -> float:
    """The learning rate of a step, the first of which is 0, in a run of so many ``steps``."""
    warm = min(1.0, (step + 1) / (section.warmup_steps + 1))
    if section.schedule == "constant":
        return section.learning_rate * warm
    left = max(steps - section.warmup_steps, 1)
    fallen = min(max(step - section.warmup_steps, 0) / left, 1)
    least = section.min_learning_rate
    return warm * (least + (section.learning_rate - least) * ((1 + math.cos(math.pi * fallen)) / 2))


def _adamw8bit() -> Callable[..., torch.optim.Optimizer]:
    # On some processors every import warns that a kernel for 4-bit products is missing, which AdamW does not use.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    optimizers = load("bitsandbytes.optim", "adamw8bit", "optimizer adamw8bit", instead=", or use adamw")
    adamw: Callable[..., torch.optim.Optimizer] = optimizers.AdamW8bit
    return adamw


def state_bytes(sizes: Iterable[int], name: str) -> int:
    """Bytes of the two moments of tensors with these numbers of values."""
    if name == "adamw":
        return sum(8 * size for size in sizes)
    return sum(8 * size if size < SMALLEST else 2 * size + 8 * -(-size // BLOCK) for size in sizes)


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, pieces: list[Batch], world: int, clip_norm: float | None = None
) -> Tensor:
    """Make one optimizer step; returns the summed loss of the batch and its count, over all ranks.

    Gradients are those of the summed loss, divided by the count of the whole batch: equal up to rounding for any pieces
    and number of ranks, even if they count unequal numbers of tokens or bins. Clipped after that division, so that a
    bound means the same whatever the pieces.
    """
    optimizer.zero_grad()
    loss = count = torch.zeros((), device=next(model.parameters()).device)
    for number, piece in enumerate(pieces, 1):
        # Ranks exchange gradients once, with the last piece.
        with model.no_sync() if isinstance(model, DistributedDataParallel) and number < len(pieces) else nullcontext():
            piece_loss, piece_count = model(piece)
            piece_loss.backward()
        loss, count = loss + piece_loss.detach(), count + piece_count.detach()
    totals = add_up(torch.stack([loss, count.to(loss.dtype)]))
    for parameter in model.parameters():
        if parameter.grad is not None:  # the mean over ranks, where the sum is needed
            parameter.grad /= totals[1].clamp(min=1) / world
    if clip_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return totals
