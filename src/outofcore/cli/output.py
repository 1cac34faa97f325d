"""What all commands print with: JSON, tables without control characters, and what begins."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from outofcore.display.console import visible

EXIT_WRONG = 1

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text.")]


class _Visible(Console):
    """Prints no control character of a text, in tables neither."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into what is printed."""
        return super().render_str(visible(text), **options)


def begin(what: str) -> None:
    """Say at a terminal what begins, before imports that take seconds."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{visible(what)}\n")


def console() -> Console:
    """Colours and the terminal's width on a terminal; elsewhere plain lines that are never broken."""
    if sys.stdout.isatty():
        return _Visible(markup=False, highlight=False, emoji=False)
    return _Visible(markup=False, highlight=False, emoji=False, no_color=True, width=10_000)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")
