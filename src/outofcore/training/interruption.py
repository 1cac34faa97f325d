"""Ctrl-C and SIGTERM stop training between two steps, never in the middle of one."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from outofcore.display.console import interrupted
from outofcore.training.ranks import any_of

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopBetweenSteps:
    """Handles the signals during its ``with`` block: the first is a request, Ctrl-C after it stops at once.

    A second SIGTERM changes nothing: schedulers and torchrun may both send one to each rank.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        interrupted.clear()

    def requested(self) -> bool:
        """Whether to stop here: the same on all ranks, whichever received the signal."""
        return any_of(self._asked)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._asked and number == signal.SIGINT:
            interrupted.set()
            raise KeyboardInterrupt
        if not self._asked:
            self._asked = True
            sys.stderr.write("\nstopping after this step (Ctrl-C to stop at once)\n")
