"""The rows of the page's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outofcore.card import Card
from outofcore.report.collect import DomainRun, StoreView
from outofcore.report.words import number
from outofcore.sizes import format_bytes

if TYPE_CHECKING:
    from outofcore.report.render import Section

MOST_SOURCES = 50
Row = tuple[str, ...]


def glance(sections: Sequence[Section]) -> list[Row]:
    """One row per domain: contents, sizes and results."""
    found: list[Row] = []
    for section in sections:
        best, store = section.headline, section.run.store
        result = (f"{best.name} {best.value}", f"{best.baseline} ({best.of})") if best else ("", "")
        found.append((section.run.name, *(_stored(store) if store else ("",) * 6), *result))
    return found


def _stored(store: StoreView) -> Row:
    card, plain = store.card, store.plain_layout.bytes if store.plain_layout else 0
    count = sum(card.rows.values())
    return (
        number(card.found),
        number(card.accepted),
        f"{count:,} {card.row}s",
        format_bytes(card.bytes),
        number(card.bytes / count) if count else "",
        f"{number(plain / card.bytes)} times" if plain else "",
    )


def splits(card: Card) -> list[Row]:
    """One row per split, and their sum."""
    found: list[Row] = [(name, number(count), number(card.sequences[name])) for name, count in card.rows.items()]
    return [*found, ("all", number(sum(card.rows.values())), number(sum(card.sequences.values())))]


def rejected(card: Card) -> list[Row]:
    """One row per reason."""
    return [(reason.replace("_", " "), number(count)) for reason, count in card.rejected.items()]


def rejects(run: DomainRun) -> list[Row]:
    """The first rejected records."""
    return [tuple(row.values()) for row in run.rejects]


def fields(card: Card) -> list[Row]:
    """One row per field."""
    return [
        (
            field.name,
            field.doc,
            field.dtype,
            field.shape or "one",
            field.codec,
            "" if field.raw_bytes is None else format_bytes(field.raw_bytes),
            format_bytes(field.stored_bytes),
        )
        for field in card.fields
    ]


def sources(card: Card) -> list[Row]:
    """One row per raw file, for the first of them."""
    counts = ("found", "accepted", "rejected")
    return [
        (str(each["name"]), format_bytes(each["bytes"]), *(number(each[name]) for name in counts))
        for each in card.sources[:MOST_SOURCES]
    ]


def outcomes(section: Section) -> list[Row]:
    """One row per metric of the model."""
    return [(each.name, each.value, each.baseline, each.of) for each in section.results]


def disk(runs: Sequence[DomainRun]) -> list[Row]:
    """One row per domain: forecast, bytes written, and free space before."""
    return [
        (
            run.name,
            format_bytes(run.convert["bytes_raw"]),
            format_bytes(run.convert["estimate_bytes"]),
            format_bytes(run.convert["bytes_store"]),
            ", ".join(f"{where}: {format_bytes(free)}" for where, free in free_before.items()),
        )
        for run in runs
        if (free_before := run.convert_run.get("free_bytes_before", {})) and "estimate_bytes" in run.convert
    ]
