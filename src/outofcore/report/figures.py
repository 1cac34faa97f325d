"""The charts of the page, each with its data table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outofcore.domains.gallery import Distribution
from outofcore.report.charts import Line, bars, level_bars, lines
from outofcore.report.collect import DomainRun, Rows, StoreView
from outofcore.report.words import baseline_of, figure_name, title_of
from outofcore.sizes import format_bytes
from outofcore.table import Kind, Table, number

MOST_GROUPS = 6
MOST_WORDS = 8
"""More text labels than this are put below each other."""


@dataclass(frozen=True)
class Chart:
    name: str  # unique in the page
    title: str
    alt: str  # text alternative, including what stands out
    svg: str  # an element of the page
    table: Table


def size_chart(run: DomainRun, store: StoreView) -> Chart:
    """Bytes per row: in the raw files, in the store, and in the plain layout."""
    card = store.card
    count = max(sum(card.rows.values()), 1)
    sizes = [("raw files", int(run.convert.get("bytes_raw", 0))), ("this store", card.bytes)]
    if store.plain_layout:
        sizes.append(("plain layout", store.plain_layout.bytes))
    shown = [(label, size / count, f"{number(size / count)} bytes") for label, size in sizes if size]
    name, title = f"{run.name}-size", f"Bytes per {card.row}"
    return Chart(
        name=name,
        title=title,
        alt=f"{title}: " + ", ".join(f"{label} {figure}" for label, _, figure in shown),
        svg=level_bars(name, f"bytes per {card.row}", shown),
        table=Table(
            (("layout", "text"), (f"bytes per {card.row}", "count"), ("total", "bytes")),
            [(label, size / count, size) for label, size in sizes if size],
        ),
    )


def memory_chart(runs: Sequence[DomainRun]) -> Chart | None:
    """Peak memory of conversion and training of each domain; None if nothing was measured here."""
    peaks = [
        (f"{run.name}: {what}", int(figures["peak_memory_bytes"]))
        for run in runs
        for what, figures in (("conversion", run.convert_run), ("training", run.train_run))
        if "peak_memory_bytes" in figures
    ]
    if not peaks:
        return None
    return Chart(
        name="memory",
        title="Peak memory",
        alt="Peak memory: " + ", ".join(f"{label} {format_bytes(peak)}" for label, peak in peaks),
        svg=level_bars("memory", "MB", [(label, peak / 1e6, format_bytes(peak)) for label, peak in peaks]),
        table=Table((("work", "text"), ("peak memory", "bytes")), peaks),
    )


def distribution_charts(run: DomainRun, store: StoreView) -> Iterator[Chart]:
    """Histograms of what the store holds, of at least two classes."""
    for place, found in enumerate(store.distributions):
        if len(_filled(found)) > 1:
            yield _histogram(f"{run.name}-distribution-{place}", found)


def equal_throughout(store: StoreView) -> Iterator[str]:
    """A line per distribution of a single class."""
    for found in store.distributions:
        match _filled(found):
            case [(label, count)]:
                yield f"{found.title}: {label} ({found.axis}) for all {number(count)} {found.of}"


def _filled(found: Distribution) -> list[tuple[str, float]]:
    return [(label, count) for label, count in zip(found.labels, found.counts, strict=True) if count]


def _histogram(name: str, found: Distribution) -> Chart:
    most = found.labels[found.counts.index(max(found.counts))]
    words = any(label[:1].isalpha() or not label.isascii() for label in found.labels)
    if words and len(found.labels) > MOST_WORDS:
        named = zip(found.labels, found.counts, strict=True)
        svg = level_bars(name, found.of, [(label, count, number(count)) for label, count in named])
    else:
        svg = bars(name, found.axis, found.of, found.labels, found.counts)
    rows = list(zip(found.labels, found.counts, strict=True))
    return Chart(
        name=name,
        title=found.title,
        alt=f"{found.title}: {len(found.counts)} classes from {found.labels[0]} to {found.labels[-1]}, most at {most}",
        svg=svg,
        table=Table(((found.axis, "text"), (found.of, "count")), rows),
    )


def curve_charts(run: DomainRun) -> Iterator[Chart]:
    """A metric over the steps of training, with its baseline."""
    columns = {key: _columns(rows) for key, rows in run.curves.items()}
    names = list(dict.fromkeys(name for _, name in sorted(columns, key=lambda key: (key[0] != "train", key[1]))))
    for name in names:
        if baseline_of(name, names)[0] != name:
            continue
        series = []
        for split, key in columns:
            base, what = baseline_of(key, names)
            if base == name and columns[split, key]:
                steps, values = columns[split, key]["step"], columns[split, key][key]
                series.append(Line(what or split, steps, values, baseline=bool(what)))
        flat = all(len(set(line.y)) == 1 for line in series)
        points = max((len(line.x) for line in series), default=0)
        if points < 2 or (flat and len(series) == 1):  # a single point is in the table of results
            continue
        last = ", ".join(f"{line.name} ends at {number(line.y[-1])}" for line in series)
        chart = f"{run.name}-curve-{name}"
        yield Chart(
            name=chart,
            title=f"{title_of(name)} while training",
            alt=f"{title_of(name)} over {number(max(max(line.x) for line in series))} steps: {last}",
            svg=lines(chart, "step", figure_name(name), series),
            table=_joined(series),
        )


def table_charts(run: DomainRun) -> Iterator[Chart]:
    """The tables of the model's task."""
    for stem, rows in run.tables.items():
        columns = _columns(rows)
        if not columns or not rows:
            continue
        words = [name for name in rows[0] if name not in columns]
        x, *others = columns
        ys = [name for name in others if not _counts(columns[name])] or others
        if not ys:
            continue
        series = list(_series(rows, words[0] if words else None, x, ys))
        first = [line.x[0] for line in series]
        scaled = (x, ys[0]) == ("predicted", "recorded")
        unit = ", standard deviations from the mean" if scaled else ""
        apart = bool(words) and set(first) == {0.0} and all(b - a == 1 for a, b in _steps(series))
        name = f"{run.name}-table-{stem}"
        yield Chart(
            name=name,
            title=title_of(stem),
            alt=f"{title_of(stem)}: {', '.join(line.name for line in series)} by {figure_name(x)}, "
            f"from {number(min(columns[x]))} to {number(max(columns[x]))}",
            svg=lines(
                name,
                f"{figure_name(x)}{unit}",
                figure_name(ys[0]) if len(ys) == 1 else "",
                series,
                diagonal=scaled,
                points=apart,
            ),
            table=table_of(rows),
        )


def table_of(rows: Rows) -> Table:
    """Rows of a file under readable names."""
    numeric = {name for row in rows for name, value in row.items() if not isinstance(_parsed(value), str)}
    names: list[tuple[str, Kind]] = [(figure_name(name), "count" if name in numeric else "text") for name in rows[0]]
    return Table(names, [[_parsed(value) for value in row.values()] for row in rows])


def _parsed(text: str) -> float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _series(rows: Rows, word: str | None, x: str, ys: Sequence[str]) -> Iterator[Line]:
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


def _steps(series: Sequence[Line]) -> Iterator[tuple[float, float]]:
    for line in series:
        yield from zip(line.x, line.x[1:], strict=False)


def _columns(rows: Rows) -> dict[str, list[float]]:
    found = {}
    for name in rows[0] if rows else ():
        try:
            found[name] = [float(row[name]) for row in rows]
        except ValueError:
            continue
    return found


def _counts(values: Sequence[float]) -> bool:
    """Whether a column counts the items behind each row."""
    return max(values) > 1 and all(value == int(value) for value in values)


def _joined(series: Sequence[Line]) -> Table:
    """One row per step."""
    by_step: dict[float, dict[int, float]] = {}
    for place, line in enumerate(series):
        for x, y in zip(line.x, line.y, strict=True):
            by_step.setdefault(x, {})[place] = y
    rows = [(int(step), *(by_step[step].get(place, "") for place in range(len(series)))) for step in sorted(by_step)]
    return Table((("step", "count"), *((line.name, "count") for line in series)), rows)
