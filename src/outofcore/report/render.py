"""Render the page."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from outofcore.inspect import store as inspect_store
from outofcore.report import figures, tables, words
from outofcore.report.collect import collect
from outofcore.report.words import figure_name, seconds, title_of
from outofcore.sizes import format_bytes
from outofcore.table import number


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
            words=words,
            memory=figures.memory_chart(runs),
            disk=tables.disk(runs),
        )
    )


def environment() -> Environment:
    """The templates of the pages, with the filters that they use."""
    made = Environment(
        loader=PackageLoader("outofcore.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "bytes": format_bytes,
        "number": number,
        "seconds": seconds,
        "figure_name": figure_name,
        "title_of": title_of,
        "thinned": tables.thinned,
        "file_name": lambda name: re.sub(r"\W+", "-", name).strip("-").lower(),
        "svg_address": lambda svg: f"data:image/svg+xml,{quote(svg, safe=' /:=,;()')}",
        "csv_address": lambda text: f"data:text/csv;charset=utf-8,{quote(text, safe=' /:=,;()')}",
        "png_address": lambda png: f"data:image/png;base64,{base64.b64encode(png).decode()}",
    }
    return made
