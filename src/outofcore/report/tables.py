"""The tables of the page that no command prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outofcore.inspect.store import Card, reject_table
from outofcore.report.collect import DomainRun
from outofcore.report.words import results
from outofcore.sizes import format_bytes
from outofcore.table import Table, columns, number

MOST_ROWS = 40


def thinned(table: Table) -> Table:
    """A readable number of rows, evenly spaced, and the last."""
    every = -(-len(table.rows) // MOST_ROWS)
    kept = [row for place, row in enumerate(table.rows, 1) if (place - 1) % every == 0 or place == len(table.rows)]
    hidden = len(table.rows) - len(kept)
    notes = (f"{len(kept)} of {len(table.rows):,} rows; the CSV file has all.",) if hidden else ()
    return replace(table, rows=kept, notes=(*table.notes, *notes))


def glance(runs: Sequence[DomainRun]) -> Table:
    """One row per domain: contents, sizes and its first result with a baseline."""
    sizes = [*columns("count", "found", "accepted", "rows"), *columns("bytes", "store")]
    sizes += columns("count", "bytes per row", "smaller than plain")
    rows = []
    for run in runs:
        best = next((each for each in results(run.train) if each.baseline), None)
        result = (f"{best.name} {best.value}", f"{best.baseline} ({best.of})") if best else ("", "")
        rows.append((run.name, *_sizes(run), *result))
    return Table([*columns("text", "domain"), *sizes, *columns("text", "result", "baseline")], rows)


def _sizes(run: DomainRun) -> tuple[str | int | float, ...]:
    if run.store is None:
        return ("",) * 6
    card, plain = run.store.card, run.store.plain_layout
    count = sum(card.rows.values())
    each = card.bytes / count if count else ""
    smaller = f"{number(plain.bytes / card.bytes)} times" if plain else ""
    return card.found, card.accepted, f"{count:,} {card.row}s", card.bytes, each, smaller


def rejected(card: Card) -> Table:
    """Rejected records by reason, in words."""
    rows = [(reason.replace("_", " "), count) for reason, count in card.rejected.items()]
    return Table(reject_table(card).columns, rows)


def rejects(run: DomainRun) -> Table:
    """The first rejected records."""
    return Table(columns("text", *run.rejects[0]), run.rejects)


def outcomes(run: DomainRun) -> Table:
    """The metrics of a model, each with its baseline; with those on the test split, if it was read."""
    tested = {each.name: each for each in results(run.test)}
    names = [*columns("text", "figure"), *columns("count", "validation", "baseline")]
    names += columns("count", "test", "95 % interval", "baseline on test") if tested else []
    rows = []
    for each in results(run.train):
        test = tested.get(each.name)
        shown = (test.value, test.interval, test.baseline) if test else ("", "", "")
        rows.append((each.name, each.value, each.baseline, *(shown if tested else ()), each.of))
    notes = []
    if tested:
        of = f"{run.test['sequences']:,} sequences" if "sequences" in run.test else "the raw files"
        notes.append(f"Test: {of}, read by the trained model alone; 95 % intervals by whole sequences.")
    for split, key, figures in (("Validation", "val_digest", run.train), ("Test", "test_digest", run.test)):
        if digest := figures.get(key):
            notes.append(f"{split} split {digest}: compare with experiments whose {key} is the same.")
    return Table([*names, *columns("text", "what the baseline is")], rows, notes=tuple(notes))


def disk(runs: Sequence[DomainRun]) -> Table | None:
    """Forecast, bytes written, and free space before, by domain; None if nothing was converted here."""
    rows = [
        (
            run.name,
            *(run.convert[name] for name in ("bytes_raw", "estimate_bytes", "bytes_store")),
            ", ".join(f"{where}: {format_bytes(free)}" for where, free in free_before.items()),
        )
        for run in runs
        if (free_before := run.convert_run.get("free_bytes_before", {})) and "estimate_bytes" in run.convert
    ]
    names = [*columns("text", "domain"), *columns("bytes", "raw", "forecast", "store"), *columns("text", "free before")]
    return Table(names, rows) if rows else None
