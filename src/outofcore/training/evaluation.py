"""Figures of a trained model on a split that it was not chosen by, with 95 % confidence intervals.

Samples of one game, document or trial depend on each other, so intervals are by whole sequences: a delete-a-group
jackknife (Kott 2001, Journal of Official Statistics 17, 521-526; Efron & Tibshirani 1993, An Introduction to the
Bootstrap, chapter 11) over groups of neighbouring sequences, with quantiles of Student's t (Tukey 1958). It holds for
every figure that a task makes of its sums, draws nothing at random, and stays honest where there are few sequences. A
bootstrap would draw repeats of a stimulus twice, which lowers the noise that they are there to measure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outofcore.domains.task import Batch, Task

GROUPS = 64
"""Most groups of sequences; more would narrow an interval's own error by little."""
HELD_BYTES = 1 << 29
"""What the sums of all groups may hold; where one takes more, as with many players, there are two groups."""
CONFIDENCE = 0.95

_DIGITS = 6

Sums = dict[str, Tensor]


def add_sums(sums: Sums, task: Task, batch: Batch, micro_batch: int = 0) -> None:
    """Add a batch to the sums of an evaluation, in float64 on the CPU."""
    for piece in task.micro_batches(batch, micro_batch):
        for key, value in task.evaluate(piece).items():
            exact = value.cpu().double()
            sums[key] = sums[key] + exact if key in sums else exact


@torch.no_grad()
def evaluate(
    task: Task, batches: Iterable[Batch], sequences: Sequence[int], *, micro_batch: int = 0, mixed: bool = False
) -> dict[str, Any]:
    """The task's figures over all batches, with ``low`` and ``high`` ends of those that are no counts.

    ``sequences`` are their numbers by part; batches have each sample's as ``sequence``, and ``part`` if there are
    several. Batches without belong to groups by their own place, ``sequences`` then being their number. No batch, no
    figures; one group, no intervals, nor for a figure that is the same without any group. ``mixed``: in bfloat16 where
    training was.
    """
    first, total = np.cumsum([0, *sequences]), sum(sequences)
    groups: defaultdict[int, Sums] = defaultdict(dict)
    count = 0
    task.eval()
    with torch.autocast(task.device.type, torch.bfloat16, enabled=mixed, cache_enabled=False):
        for place, batch in enumerate(batches):
            start = int(first[int(batch["part"][0]) if "part" in batch else 0])
            number = batch.pop("sequence", torch.full((len(next(iter(batch.values()))),), place))
            count = count or min(total, _groups(task, batch))
            for group, piece in _by_group(batch, (start + number) * count // total):
                add_sums(groups[group], task, piece, micro_batch)
    if not groups:
        return {}
    whole: Sums = {}
    for sums in groups.values():
        whole = {key: whole[key] + value if whole else value for key, value in sums.items()}
    figures = task.summarize(whole)
    shown: dict[str, Any] = {key: round(value, _DIGITS) for key, value in figures.items()}
    if len(groups) > 1:
        without = [task.summarize({key: whole[key] - value for key, value in sums.items()}) for sums in groups.values()]
        ends = {key: interval(value, [rest.get(key, math.nan) for rest in without]) for key, value in figures.items()}
        for side, name in enumerate(("low", "high")):
            rounded = {key: round(pair[side], _DIGITS) for key, pair in ends.items() if pair}
            shown[name] = {
                key: min(max(end, 0.0), 1.0) if key.startswith(task.shares) else end for key, end in rounded.items()
            }
    return shown


def _groups(task: Task, batch: Batch) -> int:
    sums: Sums = {}
    add_sums(sums, task, {key: tensor[:1] for key, tensor in batch.items()})
    return max(2, min(GROUPS, HELD_BYTES // sum(8 * value.numel() for value in sums.values())))


def _by_group(batch: Batch, groups: Tensor) -> Iterator[tuple[int, Batch]]:
    names, counts = torch.unique_consecutive(groups, return_counts=True)
    pieces = {key: torch.split(tensor, counts.tolist()) for key, tensor in batch.items()}
    for place, name in enumerate(names.tolist()):
        yield name, {key: split_tensors[place] for key, split_tensors in pieces.items()}


def interval(value: float, without: Sequence[float]) -> tuple[float, float] | None:
    """The ends of a figure's interval, by its values without each group.

    None for a count, for a figure that no group changes, and where one is missing.
    """
    values, count = np.array(without), len(without)
    if not np.isfinite(values).all() or not (np.append(values, value) % 1).any() or not np.ptp(values):
        return None
    error = math.sqrt((count - 1) / count * float(np.square(values - values.mean()).sum()))
    half_width = t_quantile(count - 1) * error
    return value - half_width, value + half_width


def t_quantile(freedom: int) -> float:
    """How many standard errors hold 95 % of Student's t: with t = sqrt(n) tan(a), a has the density cos(a)^(n - 1)."""
    angle = np.linspace(0, math.pi / 2, 200_001)
    share = np.cumsum(np.cos(angle) ** (freedom - 1))
    return math.sqrt(freedom) * math.tan(angle[np.searchsorted(share, CONFIDENCE * share[-1])])
