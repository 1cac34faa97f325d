"""What a run shows while it trains: curves, in the files that DVC and its extensions draw, and a progress bar."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Self

from outofcore.display.bar import Bar
from outofcore.training.ranks import this_rank


class Curves:
    """Shows a run of so many steps; ranks other than the first show nothing.

    A curve is a table of two columns, such as ``train/loss.tsv``. DVCLive is not used: it would make a DVC repository
    of any Git repository that it is started in.
    """

    def __init__(self, name: str, folder: Path, steps: int) -> None:
        self._folder, self._first, self._steps = folder, this_rank().rank == 0, steps
        self._bar = Bar(silent=not self._first)
        self._line = self._bar.add_task(f"train {name}", total=steps)

    def __enter__(self) -> Self:
        for earlier in self._folder.glob("*/*.tsv") if self._first else ():
            earlier.unlink()  # those of a run that resumes are drawn again
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def draw(self, step: int, figures: dict[str, float]) -> None:
        """Add a row."""
        for key, value in figures.items() if self._first else ():
            table = self._folder / f"{key}.tsv"
            rows = [(step, value)] if table.exists() else [("step", table.stem), (step, value)]
            table.parent.mkdir(parents=True, exist_ok=True)
            with table.open("a", encoding="utf-8", newline="") as file:
                csv.writer(file, "excel-tab", lineterminator="\n").writerows(rows)

    def show(self, step: int, *facts: str) -> None:
        """Show that so many steps are made, and what is known of them."""
        shown = ", ".join((f"step {step:,} of {self._steps:,}", *filter(None, facts)))
        self._bar.update(self._line, completed=step, facts=shown)
