"""The tables of the page that no command prints."""

from __future__ import annotations

from collections.abc import Sequence

from outofcore.display.table import DisplayTable, columns
from outofcore.inspect.store import Card, reject_table
from outofcore.report.collect import DomainRun
from outofcore.report.words import results
from outofcore.settings.sizes import format_bytes


def rejected(card: Card) -> DisplayTable:
    """Rejected records by reason, in words."""
    rows = [(reason.replace("_", " "), count) for reason, count in card.rejected.items()]
    return DisplayTable(reject_table(card).columns, rows)


def rejects(run: DomainRun) -> DisplayTable:
    """The first rejected records."""
    return DisplayTable(columns("text", *run.rejects[0]), run.rejects)


def outcomes(run: DomainRun) -> DisplayTable:
    """The metrics of a model, each with its baseline; with those of the last commit and of the test split, if any."""
    tested = {result.name: result for result in results(run.test)}
    before = {result.name: result.value for result in results(run.committed)}
    earlier = ("last commit",) if before else ()
    names = [*columns("text", "figure"), *columns("count", "validation", *earlier, "baseline")]
    names += columns("count", "test", "95 % interval", "baseline on test") if tested else []
    rows = []
    for result in results(run.train):
        test = tested.get(result.name)
        shown = (test.value, test.interval, test.baseline) if test else ("", "", "")
        compared = [before.get(result.name, "")] if before else []
        rows.append((result.name, result.value, *compared, result.baseline, *(shown if tested else ()), result.of))
    notes = []
    if before and run.committed.get("val_digest") != run.train.get("val_digest"):
        notes.append("The last commit's figures are of another validation split: do not compare them.")
    if tested:
        of = f"{run.test['sequences']:,} sequences" if "sequences" in run.test else "the raw files"
        notes.append(f"Test: {of}, read by the trained model alone; 95 % intervals by whole sequences.")
    for split, key, figures in (("Validation", "val_digest", run.train), ("Test", "test_digest", run.test)):
        if digest := figures.get(key):
            notes.append(f"{split} split {digest}: compare with experiments whose {key} is the same.")
    return DisplayTable([*names, *columns("text", "what the baseline is")], rows, notes=tuple(notes))


def costs(runs: Sequence[DomainRun]) -> DisplayTable | None:
    """Memory and disk space that the runs on this machine took, by domain; None if nothing ran here."""
    rows = [
        {
            "domain": run.name,
            "peak of conversion": run.convert_run.get("peak_memory_bytes"),
            "peak of training": run.train_run.get("peak_memory_bytes"),
            "raw files": run.convert.get("bytes_raw"),
            "forecast": run.convert.get("estimate_bytes"),
            "store": run.convert.get("bytes_store"),
            "free before": ", ".join(
                f"{where}: {format_bytes(free)}" for where, free in run.convert_run.get("free_bytes_before", {}).items()
            ),
        }
        for run in runs
        if run.convert_run or run.train_run
    ]
    names = columns("bytes", "peak of conversion", "peak of training", "raw files", "forecast", "store")
    return DisplayTable([*columns("text", "domain"), *names, *columns("text", "free before")], rows) if rows else None
