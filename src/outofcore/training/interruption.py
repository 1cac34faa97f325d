"""Ctrl-C and SIGTERM stop training between two steps, never in the middle of one."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from lightning.pytorch import Callback

from outofcore.training.ranks import any_of

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):  # noqa: N818 - a request, not an error
    """Training stopped after a whole step at the user's request."""


class StopBetweenSteps(Callback):
    """Handles signals while a trainer runs; a second signal stops at once.

    Use it as a context around the trainer, which installs its own handlers when it starts and restores those it found
    when it ends. Ranks stop after the same step, whichever received the signal.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on_train_start(self, *_: Any) -> None:
        """Install the signal handlers."""
        self._listen()

    def on_validation_start(self, *_: Any) -> None:
        """Install the signal handlers."""
        self._listen()

    def on_train_batch_end(self, *_: Any) -> None:
        """Stop here if requested."""
        self._check()

    def on_validation_batch_end(self, *_: Any) -> None:
        """Stop here if requested."""
        self._check()

    def _listen(self) -> None:
        for number in self._before:
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        sys.stderr.write("\nstopping after this step (once more to stop at once)\n")

    def _check(self) -> None:
        if any_of(self._asked):
            raise Interrupted
