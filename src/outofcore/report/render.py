"""Render the page."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from outofcore.inspect import store as inspect_store
from outofcore.report import benches, charts, figures, tables, words
from outofcore.report.collect import DomainRun, collect, domains_of, measurements
from outofcore.report.experiments import domains, experiments
from outofcore.report.lanes import Step, lanes
from outofcore.report.words import figure_name, seconds, title_of
from outofcore.sizes import format_bytes
from outofcore.table import number

STAGE = "report"
"""The stage that makes the page, not shown in it."""


def make_page(project: Path) -> str:
    """The report of a project's folder as one self-contained HTML document; raises StoreError, ParamsError."""
    runs = collect(project)
    return (
        environment()
        .get_template("index.html")
        .render(
            runs=runs,
            tables=tables,
            card_tables=inspect_store,
            charts=figures,
            benches=benches,
            words=words,
            memory=figures.memory_chart(runs),
            disk=tables.disk(runs),
            lanes=_timed(lanes(project / "dvc.lock", STAGE, domains_of(project)), runs),
            measurements=measurements(project),
        )
    )


def make_comparison(project: Path) -> str:
    """The experiments of a project as one self-contained HTML document; raises OutOfCoreError."""
    return environment().get_template("experiments.html").render(domains=domains(experiments(project)))


def _timed(found: Mapping[str, Sequence[Step]], runs: Sequence[DomainRun]) -> dict[str, list[tuple[Step, str]]]:
    """Every step with its time on this machine, "" if unknown."""
    times: dict[str, Any] = {}
    for run in runs:
        times |= {f"convert@{run.name}": run.convert_run, f"train@{run.name}": run.train_run}
    return {
        domain: [(step, seconds(times[step.name]["seconds"]) if times.get(step.name) else "") for step in steps]
        for domain, steps in found.items()
    }


def environment() -> Environment:
    """The templates of the pages, with the filters that they use."""
    loader = PackageLoader("outofcore.report", "page")
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, *_ = loader.get_source(made, "style.css")
    light = style.partition("@media")[0]
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", light))
    made.filters |= {
        "bytes": format_bytes,
        "number": number,
        "seconds": seconds,
        "figure_name": figure_name,
        "title_of": title_of,
        "thinned": tables.thinned,
        "file_name": lambda name: re.sub(r"\W+", "-", name).strip("-").lower(),
        "svg_file": lambda svg: charts.as_file(svg, colours),
        "svg_address": lambda svg: f"data:image/svg+xml,{quote(svg, safe=' /:=,;()')}",
        "csv_address": lambda text: f"data:text/csv;charset=utf-8,{quote(text, safe=' /:=,;()')}",
        "png_address": lambda png: f"data:image/png;base64,{base64.b64encode(png).decode()}",
    }
    return made
