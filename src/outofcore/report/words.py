"""Readable metrics and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from outofcore.display.table import number

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
        Result(
            title_of(key),
            number(figures[key]),
            *compared.get(key, ("", "")),
            interval(ends, key),
        )
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
