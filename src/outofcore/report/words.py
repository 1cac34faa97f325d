"""Figures and their names as a person reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

BASELINES = {
    "most_frequent": "always the commonest",
    "frequencies": "frequencies alone",
    "constant": "always the mean",
    "mean_response": "always the mean response",
    "heat_map": "heat maps",
}
"""What a figure's name ends with that is a baseline, and what that baseline is."""

LOWER_IS_BETTER = {"loss", "error", "perplexity", "byte"}
"""Words in the names of figures that are the better the lower they are; others the higher."""


@dataclass(frozen=True)
class Result:
    """A quality figure of a model.

    Attributes
    ----------
    name, value
        The figure.
    baseline, of
        What it is compared with, "" where there is none, and what that is.
    """

    name: str
    value: str
    baseline: str
    of: str


def results(figures: Mapping[str, Any]) -> list[Result]:
    """The figures of a training run, each beside its baseline."""
    compared: dict[str, tuple[str, str]] = {}
    for key in figures:
        name, of = baseline_of(key, figures)
        if of:
            lower_is_better = not LOWER_IS_BETTER.isdisjoint(name.split("_"))
            worse = figures[name] > figures[key] if lower_is_better else figures[name] < figures[key]
            compared[name] = (number(figures[key]), f"{of}, which does better" if worse else of)
    return [
        Result(title_of(key), number(figures[key]), *compared.get(key, ("", "")))
        for key in figures
        if baseline_of(key, figures)[0] == key
    ]


def told(figures: Mapping[str, Any]) -> list[str]:
    """The figures of a training run that have a baseline, a line each."""
    return [f"{each.name}: {each.value} ({each.of}: {each.baseline})" for each in results(figures) if each.of]


def baseline_of(key: str, keys: Iterable[str]) -> tuple[str, str]:
    """The figure that a baseline belongs to, and what that baseline is; a figure itself with ""."""
    for ending, what in BASELINES.items():
        name = key.removesuffix(f"_{ending}")
        if name != key and name in keys:
            return name, what
    return key, ""


def figure_name(key: str) -> str:
    """A key as words: ``top1_most_frequent`` is "top 1, always the commonest"."""
    for ending, what in BASELINES.items():
        if key.endswith(f"_{ending}"):
            return f"{figure_name(key.removesuffix(f'_{ending}'))}, {what}"
    return " ".join(_word(word) for word in key.split("_"))


def title_of(key: str) -> str:
    """A key as words that begin a line."""
    name = figure_name(key)
    return name[:1].upper() + name[1:]


def number(value: float) -> str:
    """A number to four figures, whole ones in full."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def quantity(value: Any) -> str:
    """A number as :func:`number` has it, anything else as it stands."""
    try:
        return number(float(value)) if value not in (True, False) else str(value)
    except (TypeError, ValueError):
        return str(value)


def seconds(value: float) -> str:
    """A time: ``4.4 s``, ``12 min``, ``3.5 h``."""
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"


def _word(word: str) -> str:
    letters = word.rstrip("0123456789")
    return f"{letters} {word[len(letters) :]}" if letters == "top" and letters != word else word
