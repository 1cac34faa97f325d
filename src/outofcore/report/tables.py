"""The tables of the page that no command prints."""

from __future__ import annotations

from outofcore.display.table import DisplayTable, columns
from outofcore.inspect.store import Card, flat_params, reject_table
from outofcore.report.collect import DomainRun, ModelView
from outofcore.report.words import results


def rejected(card: Card) -> DisplayTable:
    """Rejected records by reason, in words."""
    rows = [(reason.replace("_", " "), count) for reason, count in card.rejected.items()]
    return DisplayTable(reject_table(card).columns, rows)


def rejects(run: DomainRun) -> DisplayTable:
    """The first rejected records."""
    return DisplayTable(columns("text", *run.rejects[0]), run.rejects)


def outcomes(run: DomainRun) -> DisplayTable:
    """The metrics of a model, each with its baseline, and those of the test split, if any."""
    tested = {result.name: result for result in results(run.test)}
    names = [*columns("text", "figure"), *columns("count", "validation", "baseline")]
    names += columns("count", "test", "95 % interval", "baseline on test") if tested else []
    rows = []
    for result in results(run.train):
        test = tested.get(result.name)
        shown = (test.value, test.interval, test.baseline) if test else ("", "", "")
        rows.append((result.name, result.value, result.baseline, *(shown if tested else ()), result.of))
    notes = []
    if tested:
        of = f"{run.test['sequences']:,} sequences" if "sequences" in run.test else "the raw files"
        notes.append(f"Test: {of}, read by the trained model alone; 95 % intervals by whole sequences.")
    for split, key, figures in (("Validation", "val_digest", run.train), ("Test", "test_digest", run.test)):
        if digest := figures.get(key):
            notes.append(f"{split} split {digest}: compare with experiments whose {key} is the same.")
    return DisplayTable([*names, *columns("text", "what the baseline is")], rows, notes=tuple(notes))


def trained_with(model: ModelView) -> DisplayTable:
    """The settings that a model was trained with."""
    return DisplayTable(columns("text", "setting", "value"), list(flat_params(model.settings)))
