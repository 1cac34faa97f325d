"""Describe a store: its card, which is its content in key numbers, and rows of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from outofcore.display.table import DisplayTable, columns
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError, StoreError
from outofcore.store.reader import Array, Store

if TYPE_CHECKING:
    from outofcore.store.unsealed import Unsealed

# Rows for a drawing: enough for a piece of text; one or two chunks per field are decoded.
DRAWN_ROWS = 256


@dataclass(frozen=True)
class FieldCard:
    """A field, over all parts and splits."""

    name: str  # ``boards``, or ``sequences/elo`` for a column of the sequences
    dtype: str
    shape: str  # of one row; "differs" if parts do
    raw_bytes: int | None  # decoded; None for text, whose rows vary
    stored_bytes: int  # on disk
    codec: str
    doc: str


@dataclass(frozen=True)
class Card:
    """The content of ``outofcore info``."""

    path: str
    domain: str
    digest: str  # equal digests, equal bytes
    row: str  # its name
    sequence: str  # its name
    parts: tuple[str, ...]  # names; one "" for a single part
    found: int  # records of the raw input
    accepted: int
    rejected: dict[str, int]  # by reason
    rows: dict[str, int]  # by split
    sequences: dict[str, int]  # by split
    bytes: int  # listed in the seal
    files: int  # listed in the seal
    fields: tuple[FieldCard, ...]
    params: dict[str, Any]  # the settings that its bytes depend on
    ratios: dict[str, float]  # figures that its domain adds
    sources: tuple[dict[str, Any], ...]  # per raw file: name, digest, bytes, found, accepted, rejected
    sample: str  # the first row, drawn by its domain; "" for an empty store


def card_of(store: Store) -> Card:
    """Read a store's card; decodes its sources, the lengths of its texts and the beginning of one split."""
    facts = store.attributes
    sources = store.sources.read()
    return Card(
        path=str(store.root),
        domain=store.domain,
        digest=store.digest,
        row=facts["row"],
        sequence=facts["sequence"],
        parts=store.parts,
        found=facts["found"],
        accepted=facts["accepted"],
        rejected=facts["rejected"],
        rows={split: facts["rows"][split] for split in store.splits},
        sequences={split: facts["sequences"][split] for split in store.splits},
        bytes=sum(size for size, _ in store.seal.files.values()),
        files=len(store.seal.files),
        fields=_fields(store),
        params=facts["params"],
        ratios=_ratios(store),
        sources=tuple(
            {name: _plain(column[number]) for name, column in sources.items()} for number in range(len(store.sources))
        ),
        sample=_sample(store),
    )


def split_table(card: Card) -> DisplayTable:
    """Rows and sequences of each split, and of all."""
    counts = [(name, count, card.sequences[name]) for name, count in card.rows.items()]
    total = ("all", sum(card.rows.values()), sum(card.sequences.values()))
    names = columns("count", f"{card.row}s", f"{card.sequence}s")
    return DisplayTable([*columns("text", "split"), *names], [*counts, total])


def reject_table(card: Card) -> DisplayTable:
    """Rejected records by reason."""
    return DisplayTable(
        [*columns("text", "rejected because"), *columns("count", "records")], list(card.rejected.items())
    )


def field_table(card: Card) -> DisplayTable:
    """Type and size of each field."""
    rows = [
        (
            field.name,
            field.dtype,
            field.shape or "one",
            field.raw_bytes,
            field.stored_bytes,
            f"{field.raw_bytes / field.stored_bytes:.1f}" if field.raw_bytes and field.stored_bytes else None,
            field.codec,
            field.doc,
        )
        for field in card.fields
    ]
    sizes = [*columns("bytes", "decoded", "on disk"), *columns("count", "ratio")]
    return DisplayTable(
        [*columns("text", "field", "type", "row"), *sizes, *columns("text", "codec", "what it is")], rows
    )


def unsealed_table(store: Unsealed, lines: Sequence[str]) -> DisplayTable:
    """Type and size of each field of data that outofcore did not write, and what a loader says of reading it."""
    fields = store.rows("train").fields
    rows = [
        (
            name,
            str(array.dtype),
            " x ".join(map(str, array.shape[1:])) or "one",
            len(array),
            array.chunk_rows,
            len(array) * array.row_bytes,
            store.missing(name),
            array.codec_name,
        )
        for name, array in fields.items()
    ]
    counts = [*columns("count", "rows", "rows read together"), *columns("bytes", "decoded")]
    numbers = [*counts, *columns("count", "chunks not written")]
    how = "open_zarr(); axis= and fields= choose others" if store.domain == "zarr" else "open_tokens()"
    notes = (f"no seal: read in place by loader() and {how}", *lines)
    return DisplayTable(
        [*columns("text", "field", "type", "row"), *numbers, *columns("text", "codec")], rows, notes=notes
    )


def setting_table(card: Card) -> DisplayTable:
    """The settings that determine the store's bytes."""
    return DisplayTable(columns("text", "setting", "value"), list(flat_params(card.params).items()))


def source_table(card: Card, most: int) -> DisplayTable:
    """The first ``most`` raw files."""
    counts = ("found", "accepted", "rejected")
    rows = [(source["name"], source["bytes"], *(source[name] for name in counts)) for source in card.sources[:most]]
    names = [*columns("text", "source"), *columns("bytes", "size"), *columns("count", *counts)]
    more = len(card.sources) - most
    note = f"and {more:,} more; 'outofcore info {card.path} --json' lists them all"
    return DisplayTable(names, rows, notes=(note,) if more > 0 else ())


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
    part, split = _first_filled(store, split, part)
    table, sequences = store.rows(split, part), store.sequences(split, part)
    start, length = store.extents(split, part)
    if row is None:
        filled = np.flatnonzero(length)
        count = min(count, len(filled))
        places = np.unique((2 * np.arange(count) + 1) * len(filled) // (2 * count))
        rows = (start + length // 2)[filled[places]].tolist()
    elif row < len(table):
        rows = list(range(row, min(row + count, len(table))))
    else:
        raise StoreError(f"{store.root}: {split} has {len(table):,} rows, the first is 0; there is no row {row:,}")
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


def flat_params(params: dict[str, Any], above: str = "") -> dict[str, str]:
    """Values as in params.yaml by dotted key."""
    flat: dict[str, str] = {}
    for name, value in params.items():
        key, plain = f"{above}{name}", isinstance(value, str) and value.strip() and value.isprintable()
        if isinstance(value, dict) and value:
            flat |= flat_params(value, f"{key}.")
        elif isinstance(value, list) and value:
            flat[key] = ", ".join(map(str, value))
        else:
            flat[key] = value if plain else json.dumps(value, ensure_ascii=False)
    return flat


def _fields(store: Store) -> tuple[FieldCard, ...]:
    arrays: dict[str, list[Array]] = defaultdict(list)
    for part, split in product(store.parts, store.splits):
        for name, array in store.rows(split, part).fields.items():
            arrays[name].append(array)
        for name, array in store.sequences(split, part).fields.items():
            arrays[f"sequences/{name}"].append(array)
    order = sorted(arrays, key=lambda name: (name.startswith("sequences/"), name))
    return tuple(_field(store, name, arrays[name]) for name in order)


def _field(store: Store, name: str, arrays: list[Array]) -> FieldCard:
    first = arrays[0]
    text = first.dtype.kind == "O"
    shapes = {array.shape[1:] for array in arrays}
    return FieldCard(
        name=name,
        dtype="text" if text else str(first.dtype),
        shape=" x ".join(map(str, first.shape[1:])) if len(shapes) == 1 else "differs",
        raw_bytes=None if text else sum(len(array) * array.row_bytes for array in arrays),
        stored_bytes=sum(store.stored_bytes(array) for array in arrays),
        codec=first.codec_name,
        doc=first.attributes.get("doc", ""),
    )


def _ratios(store: Store) -> dict[str, float]:
    if store.domain not in DOMAINS:
        return {}
    try:
        return dict(get_domain(store.domain).ratios(store))
    except KeyError as error:
        raise _without_field(store, error) from error


def _sample(store: Store) -> str:
    part, split = _first_filled(store, None, None)
    if not (rows := len(store.rows(split, part))):
        return ""
    try:
        return _drawing(store, split, part, 0, rows)
    except ParamsError as error:  # without the packages of its domain, the rest of the card is as useful
        return str(error)


def _first_filled(store: Store, split: str | None, part: str | None) -> tuple[str, str]:
    """The first part and split that have rows, of those that are named or None."""
    wanted = [
        pair for pair in product(store.parts, store.splits) if part in (None, pair[0]) and split in (None, pair[1])
    ]
    if not wanted:
        store.rows(split or store.splits[0], part if part is not None else store.parts[0])  # names what there is
    return next((pair for pair in wanted if len(store.rows(pair[1], pair[0]))), wanted[0])


def _drawing(store: Store, split: str, part: str, row: int, stop: int) -> str:
    if store.domain not in DOMAINS:  # of a later version, or a user's own arrays
        return ""
    rows = store.rows(split, part).read(row, min(row + DRAWN_ROWS, stop))
    try:
        return get_domain(store.domain).draw(rows, store.attributes)
    except KeyError as error:
        raise _without_field(store, error) from error


def _without_field(store: Store, error: KeyError) -> StoreError:
    return StoreError(f"{store.root}: no field {error}, so another version of outofcore has made it: convert again")


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
