"""Recommended settings by hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outofcore.display.table import DisplayTable, columns
from outofcore.domains.planning import Outlook
from outofcore.domains.reading import RAW
from outofcore.domains.text.params import TextSection
from outofcore.errors import ParamsError

BATCH_SIZE = 64
NAMES = ("machine", "memory", "preset", "seq_len", "optimizer", "precision", "shuffle_windows", "micro_batch")
ADVICE: list[dict[str, Any]] = [
    dict(zip(NAMES, row, strict=True))
    for row in (
        ("below 8 GB", 4 * 10**9, "small", 256, "adamw8bit", "32-true", 5_000, 8),
        ("8 to 16 GB", 8 * 10**9, "medium", 512, "adamw", "32-true", 20_000, 16),
        ("above 16 GB", 16 * 10**9, "large", 512, "adamw", "32-true", 100_000, 16),
        ("accelerator of 16 GB", 16 * 10**9, "large", 1024, "adamw", "bf16-mixed", 100_000, 8),
    )
]
"""Settings by the least bytes of memory of a machine; the tests hold each to half of them.

``micro_batch`` is for machine.yaml, the others are for params.yaml with a ``batch_size`` of 64.
"""


def applied(advice: Mapping[str, Any], section: TextSection) -> TextSection:
    """A section with these settings."""
    train = {name: advice[name] for name in ("preset", "optimizer", "precision")}
    changes = {
        "tensors": section.tensors.model_copy(update={"seq_len": advice["seq_len"], "stride": None}),
        "stream": section.stream.model_copy(update={"shuffle_windows": advice["shuffle_windows"]}),
        "train": section.train.model_copy(
            update={**train, **dict.fromkeys(section.train.sized_by), "batch_size": BATCH_SIZE}
        ),
    }
    return section.model_copy(update=changes)


def advice_table(section: TextSection, outlook: Outlook) -> DisplayTable:
    """Settings by hardware, with the memory that each takes with the current tokenizer."""
    rows = []
    for row in ADVICE:
        try:
            takes = outlook.takes(applied(row, section), row["micro_batch"])[RAW]
        except ParamsError:  # not a size for this tokenizer: its vocabulary alone is larger
            continue
        rows.append(row | {"takes": takes})
    names = [*columns("text", "machine"), *columns("bytes", "takes"), *columns("text", "preset")]
    names += [*columns("count", "seq_len"), *columns("text", "optimizer", "precision")]
    names += columns("count", "shuffle_windows", "micro_batch")
    title = f"settings that suit a machine, with a batch_size of {BATCH_SIZE}, and what they take from raw text"
    return DisplayTable(names, rows, "advice", title)
