"""Charts of the page: what a store holds, and what a training gave, drawn by Matplotlib as SVG documents."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, ScalarFormatter

from outofcore.display.table import DisplayTable, columns, number
from outofcore.domains.gallery import Distribution
from outofcore.report.collect import DomainRun, Records, StoreView
from outofcore.report.words import baseline_of, figure_name, title_of

MOST_GROUPS = 6
LEAST_POINTS = 3
"""Fewer values are shown as numbers."""
MOST_TICKS = 8
MOST_WORDS = 8
"""More text labels than this are put below each other."""
MARKERS = "osD^v*"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "outofcore",
    "font.size": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e6ea",
    "legend.frameon": False,
    "legend.fontsize": 10.0,
}


@dataclass(frozen=True)
class Line:
    """A series of a chart; a baseline is dashed and grey."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    baseline: bool = False


@dataclass(frozen=True)
class Chart:
    title: str
    alt: str  # text alternative, including what stands out
    svg: str  # a document


def distribution_charts(store: StoreView) -> Iterator[Chart]:
    """Histograms of what the store holds, of at least two classes."""
    for distribution in store.distributions:
        if len(_filled(distribution)) > 1:
            most = distribution.labels[distribution.counts.index(max(distribution.counts))]
            classes = f"{len(distribution.counts)} classes from {distribution.labels[0]} to {distribution.labels[-1]}"
            yield Chart(distribution.title, f"{distribution.title}: {classes}, most at {most}", bars(distribution))


def equal_throughout(store: StoreView) -> Iterator[str]:
    """A line per distribution of a single class."""
    for distribution in store.distributions:
        match _filled(distribution):
            case [(label, count)]:
                yield f"{distribution.title}: {label} ({distribution.axis}) for all {number(count)} {distribution.of}"


def _filled(distribution: Distribution) -> list[tuple[str, float]]:
    return [(label, count) for label, count in zip(distribution.labels, distribution.counts, strict=True) if count]


def curve_charts(run: DomainRun) -> Iterator[Chart]:
    """A metric over the steps of training, with its baseline."""
    for name, series in _curves(run):
        if max(len(line.x) for line in series) >= LEAST_POINTS:
            last = ", ".join(f"{line.name} ends at {number(line.y[-1])}" for line in series)
            title = f"{title_of(name)} while training"
            yield Chart(title, f"{title}: {last}", lines("step", figure_name(name), series))


def short_curves(run: DomainRun) -> DisplayTable | None:
    """Metrics with too few values for a chart, by step."""
    few = {name: series for name, series in _curves(run) if max(len(line.x) for line in series) < LEAST_POINTS}
    steps = sorted({step for series in few.values() for line in series for step in line.x})
    rows = [
        (f"{title_of(name)}, {line.name}", *(dict(zip(line.x, line.y, strict=True)).get(step, "") for step in steps))
        for name, series in few.items()
        for line in series
        if not line.baseline  # which is in the table of results
    ]
    names = [*columns("text", "figure"), *columns("count", *(f"step {step:,.0f}" for step in steps))]
    return DisplayTable(names, rows) if rows else None


def _curves(run: DomainRun) -> Iterator[tuple[str, list[Line]]]:
    """Each metric with its series and baselines, if they have several values."""
    numbers = {key: _columns(rows) for key, rows in run.curves.items()}
    names = list(dict.fromkeys(name for _, name in sorted(numbers, key=lambda key: (key[0] != "train", key[1]))))
    for name in names:
        if baseline_of(name, names)[0] != name:
            continue
        series = []
        for split, key in numbers:
            base, what = baseline_of(key, names)
            if base == name and numbers[split, key]:
                steps, values = numbers[split, key]["step"], numbers[split, key][key]
                series.append(Line(what or split, steps, values, baseline=bool(what)))
        flat = all(len(set(line.y)) == 1 for line in series)
        # A single value is in the table of results.
        if any(len(line.x) > 1 for line in series) and not (flat and len(series) == 1):
            yield name, series


def table_charts(run: DomainRun) -> Iterator[Chart]:
    """The tables of the model's task."""
    for stem, rows in run.tables.items():
        numbers = _columns(rows)
        if not numbers:
            continue
        words = [name for name in rows[0] if name not in numbers]
        x, *others = numbers
        ys = [name for name in others if not _counts(numbers[name])] or others
        if not ys:
            continue
        series = list(_series(rows, words[0] if words else None, x, ys))
        names, ends = ", ".join(line.name for line in series), [number(end(numbers[x])) for end in (min, max)]
        scaled = (x, ys[0]) == ("predicted", "recorded")
        unit = ", standard deviations from the mean" if scaled else ""
        axis = figure_name(ys[0]) if len(ys) == 1 else ""
        yield Chart(
            title_of(stem),
            f"{title_of(stem)}: {names} by {figure_name(x)}, from {ends[0]} to {ends[1]}",
            lines(f"{figure_name(x)}{unit}", axis, series, diagonal=scaled, points=bool(words) and _counted_up(series)),
        )


def _series(rows: Records, word: str | None, x: str, ys: Sequence[str]) -> Iterator[Line]:
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(row[word] if word else "", []).append(row)
    if len(groups) > MOST_GROUPS:
        groups = {"all": sorted(rows, key=lambda row: float(row[x]))}
    for group, members in groups.items():
        for y in ys:
            what = baseline_of(y, ys)[1]
            kept = [row for row in members if row[y] not in ("", "nan")]
            if kept:
                yield Line(
                    " ".join(filter(None, (group, figure_name(y) if len(ys) > 1 or not group else ""))),
                    [float(row[x]) for row in kept],
                    [float(row[y]) for row in kept],
                    baseline=bool(what) or ("model" in groups and group != "model"),
                )


def _counted_up(series: Sequence[Line]) -> bool:
    """Whether all series number their values 0, 1, 2, ...: items without an order, such as neurons."""
    return all(list(line.x) == list(range(len(line.x))) for line in series)


def _columns(rows: Records) -> dict[str, list[float]]:
    numbers = {}
    for name in rows[0] if rows else ():
        try:
            numbers[name] = [float(row[name]) for row in rows]
        except ValueError:
            continue
    return numbers


def _counts(values: Sequence[float]) -> bool:
    """Whether a column counts the items behind each row."""
    return max(values) > 1 and all(value == int(value) for value in values)


@mpl.rc_context(STYLE)
def bars(distribution: Distribution) -> str:
    """A bar per label; many labels of words below each other."""
    words = any(label[:1].isalpha() or not label.isascii() for label in distribution.labels)
    places = range(len(distribution.labels))
    figure, axes = _figure()
    if words and len(distribution.labels) > MOST_WORDS:
        figure.set_figheight(0.7 + 0.26 * len(distribution.labels))
        axes.barh(places, distribution.counts, height=0.6)
        axes.set_yticks(places, distribution.labels)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=distribution.of)
    else:
        every = -(-len(places) // MOST_TICKS)
        axes.bar(places, distribution.counts, width=0.85)
        axes.set_xticks(places[::every], distribution.labels[::every])
        axes.grid(visible=False, axis="x")
        axes.set(xlabel=distribution.axis, ylabel=distribution.of)
        if max(map(len, distribution.labels)) * len(distribution.labels) / every > 60:
            axes.tick_params("x", labelrotation=35)
    return _svg(figure)


@mpl.rc_context(STYLE)
def lines(x_axis: str, y_axis: str, series: Sequence[Line], *, diagonal: bool = False, points: bool = False) -> str:
    """Lines, or points, over a common axis; ``diagonal`` draws y = x."""
    figure, axes = _figure()
    for place, line in enumerate(sorted(series, key=lambda line: line.baseline)):  # baselines take no colour
        if line.baseline:
            marker = "_" if len(line.x) == 1 else None
            axes.plot(line.x, line.y, color="grey", linestyle="--", marker=marker, label=line.name)
        else:
            marker = MARKERS[place % len(MARKERS)] if points or len(line.x) <= 20 else None
            style = "" if points else "-"
            axes.plot(line.x, line.y, marker=marker, markersize=4, linestyle=style, label=line.name)
    if diagonal:
        ends = [bound(line.x) for line in series for bound in (min, max)]
        both = [min(ends), max(ends)]
        axes.plot(both, both, color="grey", linestyle=":", label=f"{y_axis} = {x_axis.partition(',')[0]}")
    if all(float(x).is_integer() for line in series for x in line.x):
        axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS, integer=True))
    axes.set(xlabel=x_axis, ylabel=y_axis)
    if len(series) > 1 or diagonal:
        figure.legend(loc="outside lower left", ncols=2)
    return _svg(figure)


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.0, 2.9), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Figure) -> str:
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    written = io.StringIO()
    with warnings.catch_warnings():
        # Text stays text, so the reader's fonts render it: tokens of any script.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()
