"""What a run shows while it trains: curves, as DVCLive writes them, and a progress bar on a terminal."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from dvclive.live import Live
from rich.console import Console
from rich.progress import Progress as Bar
from scmrepo.exceptions import SCMError

from outofcore.training.ranks import this_rank


class Curves:
    """Shows a run of so many steps; ranks other than the first show nothing."""

    def __init__(self, folder: Path, steps: int) -> None:
        self._folder, self._first = folder, this_rank().rank == 0
        self._live: _Live | None = None
        self._bar = Bar(console=Console(stderr=True), disable=not (self._first and sys.stderr.isatty()))
        self._line = self._bar.add_task("training", total=steps)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if self._first:
            self._live = self._open.enter_context(_Live(str(self._folder)))  # which removes the curves before
        self._open.enter_context(self._bar)
        return self

    def __exit__(self, *error: object) -> None:
        self._open.__exit__(*error)  # type: ignore[arg-type]

    def draw(self, step: int, figures: dict[str, float]) -> None:
        """Add a row."""
        if self._live:
            self._live.step = step
            for key, value in figures.items():
                self._live.log_metric(key, value)
            self._live.sync()  # type: ignore[no-untyped-call]  # dvclive has no types here

    def say(self, what: str) -> None:
        """Name what is done now."""
        self._bar.update(self._line, description=what)

    def move(self, step: int) -> None:
        """Show that so many steps are made."""
        self._bar.update(self._line, completed=step)


class _Live(Live):
    """DVCLive that neither saves experiments nor writes ``dvc.yaml``."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, dvcyaml=False, save_dvc_exp=False)

    def _init_dvc(self) -> None:  # asks for the last commit whatever the arguments, and fails where there is none
        with suppress(SCMError):
            super()._init_dvc()
