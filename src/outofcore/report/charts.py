"""Charts as inline SVG, with live text and the page's colours.

Matplotlib draws them. It knows no CSS, so each role has a colour of its own that is replaced by a CSS variable: one
drawing serves light, dark and paper.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, ScalarFormatter

INK, GRID = "#010203", "#040506"
SERIES = ("#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05", "#0a0b06")
BASELINE = "#0a0b0f"
_CSS = {
    INK: "currentColor",
    GRID: "var(--grid)",
    BASELINE: "var(--baseline)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(SERIES, 1)},
}
_MARKERS = "osD^v*"
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "outofcore",
    "font.family": "sans-serif",
    "font.size": 11.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 10.0,
}
WIDTH, HEIGHT = 5.0, 2.9
MOST_TICKS = 8
LONG_NAME = 14


@dataclass(frozen=True)
class Line:
    """A series of a chart; ``baseline`` draws it dashed and grey."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    baseline: bool = False


def bars(name: str, axis: str, of: str, labels: Sequence[str], counts: Sequence[float]) -> str:
    """A bar per label; ``name`` is a unique prefix for the chart's element ids."""
    with _chart(name) as (axes, out):
        axes.bar(range(len(labels)), counts, color=SERIES[0], width=0.85)
        every = -(-len(labels) // MOST_TICKS) if len(labels) > MOST_TICKS else 1
        narrow = max(map(len, labels), default=0) * len(labels) / every > 60
        axes.set_xticks(range(0, len(labels), every), labels[::every])
        if narrow:
            axes.tick_params("x", labelrotation=35)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
        axes.grid(visible=False, axis="x")
        axes.set(xlabel=axis, ylabel=of)
    return out[0]


def level_bars(name: str, axis: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars with label, length, and a figure at the end of each."""
    with _chart(name, height=0.7 + (0.42 if len(rows) < 6 else 0.26) * len(rows)) as (axes, out):
        places = range(len(rows))
        longest = max((length for _, length, _ in rows), default=0.0) or 1.0
        axes.barh(places, [length for _, length, _ in rows], color=SERIES[0], height=0.6)
        axes.set_yticks(places, [label for label, _, _ in rows])
        for place, (_, length, shown) in enumerate(rows):
            axes.text(length + longest / 80, place, shown, va="center", fontsize=10)
        axes.set_xlim(0, longest * 1.25)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set(xlabel=axis)
    return out[0]


def lines(
    name: str, x_axis: str, y_axis: str, series: Sequence[Line], *, diagonal: bool = False, points: bool = False
) -> str:
    """Lines, or points, over a common axis; ``name`` is a unique prefix for the ids, ``diagonal`` draws y = x."""
    with _chart(name) as (axes, out):
        drawn = 0
        for line in series:
            if line.baseline:
                marker = "_" if len(line.x) == 1 else None
                axes.plot(line.x, line.y, color=BASELINE, linestyle="--", marker=marker, label=line.name, linewidth=1.5)
                continue
            marker = _MARKERS[drawn % len(_MARKERS)] if len(line.x) <= 20 else None
            colour = SERIES[drawn % len(SERIES)]
            axes.plot(
                line.x,
                line.y,
                color=colour,
                marker=_MARKERS[drawn % len(_MARKERS)] if points else marker,
                markersize=4,
                linestyle="" if points else "-",
                label=line.name,
                linewidth=1.5,
            )
            drawn += 1
        if diagonal:
            ends = [bound(line.x) for line in series for bound in (min, max)]
            axes.plot(
                [min(ends), max(ends)],
                [min(ends), max(ends)],
                color=BASELINE,
                linestyle=":",
                label=f"{y_axis} = {x_axis.partition(',')[0]}",  # without the unit
            )
        if all(float(x).is_integer() for line in series for x in line.x):
            axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS, integer=True))
        axes.set(xlabel=x_axis, ylabel=y_axis)
        if len(series) > 1 or diagonal:
            columns = 2 if max(len(str(line.get_label())) for line in axes.get_lines()) > LONG_NAME else 3
            axes.figure.legend(loc="outside lower left", ncols=columns)
    return out[0]


@contextmanager
def _chart(name: str, height: float = HEIGHT) -> Iterator[tuple[Axes, list[str]]]:
    """Axes to draw on; on exit, the list holds the SVG."""
    out: list[str] = []
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        yield axes, out
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), ScalarFormatter):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        written = io.StringIO()
        with warnings.catch_warnings():
            # Text stays text, so the reader's fonts render it: tokens of any script.
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
            figure.savefig(
                written,
                format="svg",
                transparent=True,
                metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
            )
    out.append(_as_element(written.getvalue(), name))


def _as_element(document: str, name: str) -> str:
    """The document as an element of the page, with unique ids, the page's colours, and no size."""
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    for colour, variable in _CSS.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r' id="(?:figure|axes|patch|text|line2d|matplotlib\.axis|xtick|ytick|legend)_\d+"', "", svg)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(style="[^"]*?) font-family: [^";]*;', r"\1", svg)  # the page's
    svg = re.sub(r">\s+<", "><", svg)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', svg, count=1)
    return svg.strip()
