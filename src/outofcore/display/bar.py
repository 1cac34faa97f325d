"""The progress of commands: a bar on a terminal, of which nothing is cut at 60 columns, and lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from outofcore.display.console import visible

LINE_SECONDS = 30.0
"""Between two lines where there is no terminal, as in a batch job."""


class Bar(Progress):
    """A description, a bar as wide as there is room, percent and time left; below, the ``facts`` of a task.

    Where stderr is no terminal, :meth:`update` writes the same in a line every 30 s.
    """

    def __init__(self, *, transient: bool = False, silent: bool = False) -> None:
        at_terminal = sys.stderr.isatty()
        super().__init__(
            TextColumn("{task.description}", markup=False),  # a path is no markup
            BarColumn(None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=transient,
            expand=True,
            disable=silent or not at_terminal,
            speed_estimate_period=10 * LINE_SECONDS,
        )
        self._writes_lines = not silent and not at_terminal
        self._written = time.monotonic()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a task by the arguments of Rich's method, and its ``facts``."""
        super().update(task_id, **changes)
        now = time.monotonic()
        if self._writes_lines and now - self._written >= LINE_SECONDS:
            self._written = now
            sys.stderr.write(_line(next(task for task in self.tasks if task.id == task_id)))
            sys.stderr.flush()

    def get_renderables(self) -> Iterator[RenderableType]:
        """What is drawn, from top to bottom."""
        yield from super().get_renderables()
        for task in self.tasks:
            if facts := task.fields.get("facts"):
                yield Text(facts)


def _line(task: Task) -> str:
    left = task.time_remaining
    facts = [f"{task.percentage:.0f} %" if task.total else "", task.fields.get("facts", "")]
    facts.append(f"{left:,.0f} s left" if left is not None else "")
    shown = ", ".join(filter(None, facts))
    return visible(f"{task.description}: {shown}" if shown else task.description) + "\n"
