"""Render the page."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from outofcore.display.table import number
from outofcore.inspect import store as inspect_store
from outofcore.report import charts, words
from outofcore.report.collect import EXAMINED, collect
from outofcore.report.words import figure_name, title_of
from outofcore.settings.sizes import format_bytes


def make_page(project: Path) -> str:
    """The report of a project's folder as one self-contained HTML document; raises StoreError, ParamsError."""
    runs = collect(project)
    values: dict[str, Any] = {"examined": EXAMINED}
    values |= {"card_tables": inspect_store, "charts": charts, "words": words}
    return environment().get_template("index.html").render(runs=runs, **values)


def environment() -> Environment:
    """The templates of the page, with the filters that they use."""
    templates = Environment(
        loader=PackageLoader("outofcore.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "bytes": format_bytes,
        "number": number,
        "figure_name": figure_name,
        "title_of": title_of,
        "svg_address": lambda svg: f"data:image/svg+xml,{quote(svg, safe=' /:=,;()')}",
        "png_address": lambda png: f"data:image/png;base64,{base64.b64encode(png).decode()}",
    }
    return templates
