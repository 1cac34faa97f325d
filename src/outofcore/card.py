"""A store's card: what is in it, in figures that a person asks for first."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.store.reader import Array, Store

# Enough for a sample of any domain; a chunk or two of each field is decoded.
SAMPLE_ROWS = 256


@dataclass(frozen=True)
class FieldCard:
    """A field, over all parts and splits.

    Attributes
    ----------
    name
        ``boards``, or ``sequences/elo`` for a column of the sequences.
    dtype, shape
        Of one row; the shape is "differs" where parts do.
    raw_bytes
        Decoded bytes; None for text, whose rows differ.
    stored_bytes
        Bytes on disk.
    codec
        ``none``, ``lz4`` or ``zstd``.
    doc
        What it is.
    """

    name: str
    dtype: str
    shape: str
    raw_bytes: int | None
    stored_bytes: int
    codec: str
    doc: str


@dataclass(frozen=True)
class Card:
    """What ``outofcore info`` tells of a store.

    Attributes
    ----------
    path, domain, digest
        Which store it is; equal digests, equal bytes.
    row, sequence
        What they are called.
    parts
        Names of its parts; one "" where there is one.
    found, accepted, rejected
        Records of the raw input; rejects by reason.
    rows, sequences
        Counts by split.
    bytes, files
        What the seal lists.
    fields
        Every field.
    params
        The settings that its bytes depend on.
    sources
        One row a raw file: name, digest, bytes, found, accepted, rejected.
    sample
        The first row of the first split that has any, drawn by its domain; "" for an empty store.
    """

    path: str
    domain: str
    digest: str
    row: str
    sequence: str
    parts: tuple[str, ...]
    found: int
    accepted: int
    rejected: dict[str, int]
    rows: dict[str, int]
    sequences: dict[str, int]
    bytes: int
    files: int
    fields: tuple[FieldCard, ...]
    params: dict[str, Any]
    sources: tuple[dict[str, Any], ...]
    sample: str


def card_of(store: Store) -> Card:
    """Read a store's card; decodes its sources and the beginning of one split."""
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
        sources=tuple(
            {
                name: column[number].item() if hasattr(column[number], "item") else column[number]
                for name, column in sources.items()
            }
            for number in range(len(store.sources))
        ),
        sample=_sample(store),
    )


def flat_params(params: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Keys with dots and values as params.yaml has them."""
    for name, value in params.items():
        if isinstance(value, dict) and value:
            yield from flat_params(value, f"{above}{name}.")
        elif isinstance(value, list):
            yield f"{above}{name}", ", ".join(map(str, value))
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value)


def _fields(store: Store) -> tuple[FieldCard, ...]:
    arrays: dict[str, list[Array]] = defaultdict(list)
    for part in store.parts:
        for split in store.splits:
            for name, array in store.rows(split, part).fields.items():
                arrays[name].append(array)
    rows = list(arrays)
    for part in store.parts:
        for split in store.splits:
            for name, array in store.sequences(split, part).fields.items():
                arrays[f"sequences/{name}"].append(array)
    order = sorted(rows) + sorted(set(arrays) - set(rows))
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
        codec=first.codec.name,
        doc=first.attributes.get("doc", ""),
    )


def _sample(store: Store) -> str:
    if store.domain not in DOMAINS:  # of a later version, or a domain of the user's own
        return ""
    for part in store.parts:
        for split in store.splits:
            table = store.rows(split, part)
            if len(table):
                return get_domain(store.domain).draw(table.read(0, min(SAMPLE_ROWS, len(table))), store.attributes)
    return ""
