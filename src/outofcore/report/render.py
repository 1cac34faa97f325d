"""Render the page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from outofcore.card import flat_params
from outofcore.report import benches, tables
from outofcore.report.collect import DomainRun, collect, measurements
from outofcore.report.figures import Chart, curve_charts, distribution_chart, memory_chart, size_chart, table_charts
from outofcore.report.pipeline import Step, lanes
from outofcore.report.words import Result, figure_name, number, results, seconds, title_of
from outofcore.sizes import format_bytes

STAGE = "report"
"""The stage that makes the page, not shown in it."""
FEW_PICTURES = 3


@dataclass(frozen=True)
class Section:
    """A domain's section of the page."""

    run: DomainRun
    sizes: Chart | None  # bytes per row in three layouts; None without a store
    distributions: Sequence[Chart]
    curves: Sequence[Chart]
    tables: Sequence[Chart]
    results: Sequence[Result]  # metrics of the model with their baselines
    headline: Result | None  # the first result with a baseline, if any
    settings: Sequence[tuple[str, str]]  # params that determine the store's bytes

    @property
    def wide(self) -> bool:
        """Whether pictures are few and should be large."""
        return self.run.store is not None and len(self.run.store.pictures) <= FEW_PICTURES


@dataclass(frozen=True)
class Bench:
    """A benchmark's section of the page."""

    result: benches.Result

    @property
    def tables(self) -> dict[str, benches.Table]:
        """Its tables, by name."""
        return {name: benches.one_table([self.result], name) for name in benches.tables_in(self.result)}

    @property
    def how(self) -> str:
        """What was measured, and on which machine."""
        return f"{benches.how(self.result)}. {benches.machine(self.result)}; {benches.versions([self.result])}."


def make_page(project: Path) -> str:
    """The report of a project's folder as one self-contained HTML document; raises StoreError."""
    runs = collect(project)
    return (
        _environment()
        .get_template("index.html")
        .render(
            sections=[_section(run) for run in runs],
            rows_of=tables,
            memory=memory_chart(runs),
            disk=tables.disk(runs),
            lanes=_timed(lanes(project / "dvc.lock", STAGE), runs),
            benches=[Bench(result) for result in measurements(project)],
        )
    )


def _section(run: DomainRun) -> Section:
    found, store = results(run.train), run.store
    return Section(
        run=run,
        sizes=size_chart(run, store) if store else None,
        distributions=[
            distribution_chart(f"{run.name}-distribution-{place}", each)
            for place, each in enumerate(store.distributions if store else ())
            if each.counts
        ],
        curves=list(curve_charts(run)),
        tables=list(table_charts(run)),
        results=found,
        headline=next((each for each in found if each.baseline), None),
        settings=list(flat_params(store.card.params)) if store else [],
    )


def _timed(found: Mapping[str, Sequence[Step]], runs: Sequence[DomainRun]) -> dict[str, list[tuple[Step, str]]]:
    """Every step with its time on this machine, "" if unknown."""
    times: dict[str, Any] = {}
    for run in runs:
        times |= {f"convert@{run.name}": run.convert_run, f"train@{run.name}": run.train_run}
    return {
        domain: [(step, seconds(times[step.name]["seconds"]) if times.get(step.name) else "") for step in steps]
        for domain, steps in found.items()
    }


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("outofcore.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": format_bytes,
        "number": number,
        "seconds": seconds,
        "figure_name": figure_name,
        "title_of": title_of,
        "svg_address": lambda svg: f"data:image/svg+xml,{quote(svg, safe=' /:=,;()')}",
        "png_address": lambda png: f"data:image/png;base64,{base64.b64encode(png).decode()}",
    }
    return environment
