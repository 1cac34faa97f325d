"""Readable metrics and names, and the tables of them on the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outofcore.display.table import DisplayTable, columns, number
from outofcore.inspect.store import Card, flat_params, reject_table

if TYPE_CHECKING:
    from outofcore.report.collect import DomainRun, ModelView

BASELINES = {
    "most_frequent": "always the most frequent",
    "frequencies": "frequencies alone",
    "constant": "always the mean",
    "mean_response": "always the mean response",
    "heat_map": "heat maps",
}
"""Suffixes of baseline names, and what the baselines are."""

LOWER_IS_BETTER = {"loss", "error", "perplexity", "byte"}
"""Words in the names of metrics for which lower is better; for others, higher is."""


@dataclass(frozen=True)
class Result:
    """A quality metric of a model."""

    name: str
    value: str
    baseline: str  # "" if none
    of: str  # what the baseline is
    interval: str  # of 95 % confidence, "" if none


def results(figures: Mapping[str, Any]) -> list[Result]:
    """The metrics of a training run, or of a test, each with its baseline."""
    ends, figures = figures, {key: value for key, value in figures.items() if isinstance(value, int | float)}
    compared: dict[str, tuple[str, str]] = {}
    for key in figures:
        name, of = baseline_of(key, figures)
        if of:
            lower_is_better = not LOWER_IS_BETTER.isdisjoint(name.split("_"))
            worse = figures[name] > figures[key] if lower_is_better else figures[name] < figures[key]
            compared[name] = (number(figures[key]), f"{of}, which does better" if worse else of)
    return [
        Result(title_of(key), number(figures[key]), *compared.get(key, ("", "")), interval(ends, key))
        for key in figures
        if baseline_of(key, figures)[0] == key
    ]


def interval(figures: Mapping[str, Any], key: str) -> str:
    """The 95 % confidence interval of a metric, "" if it has none."""
    return f"{number(figures['low'][key])} to {number(figures['high'][key])}" if key in figures.get("low", {}) else ""


def figure_lines(figures: Mapping[str, Any], *, compared: bool = False) -> list[str]:
    """The metrics, one line each, with 95 % intervals and baselines; ``compared``: those that have a baseline."""
    lines = []
    for result in results(figures):
        line = f"{result.name}: {result.value}"
        line += f" (95 %: {result.interval})" if result.interval else ""
        if result.of:
            line += f"; {result.of}: {result.baseline}"
        if result.of or not compared:
            lines.append(line)
    return lines


def baseline_of(key: str, keys: Iterable[str]) -> tuple[str, str]:
    """The metric that a baseline belongs to, and what the baseline is; a metric itself with ""."""
    for ending, what in BASELINES.items():
        name = key.removesuffix(f"_{ending}")
        if name != key and name in keys:
            return name, what
    return key, ""


def figure_name(key: str) -> str:
    """A key as words: ``top1_most_frequent`` is "top 1, always the most frequent"."""
    for ending, what in BASELINES.items():
        if key.endswith(f"_{ending}"):
            return f"{figure_name(key.removesuffix(f'_{ending}'))}, {what}"
    return " ".join(_word(word) for word in key.split("_"))


def title_of(key: str) -> str:
    """A key as words, capitalised."""
    name = figure_name(key)
    return name[:1].upper() + name[1:]


def _word(word: str) -> str:
    letters = word.rstrip("0123456789")
    return f"{letters} {word[len(letters) :]}" if letters == "top" and letters != word else word


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
    return DisplayTable(columns("text", "setting", "value"), list(flat_params(model.settings).items()))
