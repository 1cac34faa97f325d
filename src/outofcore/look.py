"""Readable rows of a store: their place, their sequence, and a drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import StoreError
from outofcore.store.reader import Store

# Rows for a drawing: enough for a piece of text, one or two chunks per field.
DRAWN_ROWS = 256


@dataclass(frozen=True)
class Look:
    """A row of a store."""

    part: str
    split: str
    row: int
    number: int  # of its sequence
    place: int  # of the row in that sequence
    sequence: dict[str, Any]  # the columns of that sequence
    drawing: str  # the row as text, drawn by its domain; "" if unknown


def looks(store: Store, split: str | None, part: str | None, row: int | None, count: int) -> list[Look]:
    """At most ``count`` rows of a split, consecutive from ``row`` on, or spread over the split.

    ``split`` and ``part`` None choose the first that has rows; ``row`` None takes rows from the middle of sequences
    spread over the split. Raises StoreError if there is no such split, part or row, DamagedStore if the sequences do
    not cover the rows.
    """
    part, split = _where(store, split, part)
    table, sequences = store.rows(split, part), store.sequences(split, part)
    start, length = store.extents(split, part)
    if row is None:
        filled = np.flatnonzero(length)
        places = np.unique((2 * np.arange(count) + 1) * len(filled) // (2 * count))[: len(filled)]
        rows = (start + length // 2)[filled[places]].tolist()
    elif row < len(table):
        rows = list(range(row, min(row + count, len(table))))
    else:
        message = f"{store.root}: {split} has {len(table):,} rows, the first is 0; there is no row {row:,}"
        raise StoreError(message)
    numbers = (np.searchsorted(start, rows, "right") - 1).tolist()
    return [
        Look(
            part=part,
            split=split,
            row=at,
            number=number,
            place=at - int(start[number]),
            sequence={name: _plain(column.read(number, number + 1)[0]) for name, column in sequences.fields.items()},
            drawing=_drawing(store, split, part, at, int(start[number] + length[number])),
        )
        for at, number in zip(rows, numbers, strict=True)
    ]


def _where(store: Store, split: str | None, part: str | None) -> tuple[str, str]:
    wanted = [(p, s) for p in store.parts for s in store.splits if part in (None, p) and split in (None, s)]
    if not wanted:
        store.rows(split or store.splits[0], part if part is not None else store.parts[0])  # names what there is
    return next((each for each in wanted if len(store.rows(each[1], each[0]))), wanted[0])


def _drawing(store: Store, split: str, part: str, row: int, stop: int) -> str:
    if store.domain not in DOMAINS:
        return ""
    rows = store.rows(split, part).read(row, min(row + DRAWN_ROWS, stop))
    return get_domain(store.domain).draw(rows, store.attributes)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
