"""The progress bar of commands: nothing of it is cut on a terminal of 60 columns."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text


class Bar(Progress):
    """A description, a bar as wide as there is room, percent and time left; below, the ``facts`` of a task."""

    def __init__(self, *, transient: bool = False, disable: bool = False) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),  # a path is no markup
            BarColumn(None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=transient,
            expand=True,
            disable=disable or not sys.stderr.isatty(),
        )

    def get_renderables(self) -> Iterator[RenderableType]:
        """What is drawn, from top to bottom."""
        yield from super().get_renderables()
        for task in self.tasks:
            if facts := task.fields.get("facts"):
                yield Text(facts)
