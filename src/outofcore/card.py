"""A store's card: its contents in key numbers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.store.reader import Array, Store

# Enough for a sample of any domain; one or two chunks per field are decoded.
SAMPLE_ROWS = 256


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
    sources: tuple[dict[str, Any], ...]  # per raw file: name, digest, bytes, found, accepted, rejected
    sample: str  # the first row, drawn by its domain; "" for an empty store


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
    """Dotted keys, and values as in params.yaml."""
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
    if store.domain not in DOMAINS:  # of a later version, or a user's own domain
        return ""
    for part in store.parts:
        for split in store.splits:
            table = store.rows(split, part)
            if len(table):
                return get_domain(store.domain).draw(table.read(0, min(SAMPLE_ROWS, len(table))), store.attributes)
    return ""
