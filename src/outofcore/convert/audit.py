"""Where oracles read beside engines: in a process of their own, because reference libraries are pure Python."""

from __future__ import annotations

import multiprocessing
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType
from typing import Self

from outofcore.errors import AuditError
from outofcore.raw.unit import Audit

# Fewer than these are done at once: to start a process takes as long.
AT_ONCE = 48
# How many may wait, each with the text and the rows of its record.
WAITING = 256


class Auditors:
    """Runs the comparisons that units ask for, beside the conversion.

    A reference library holds the interpreter lock while it reads: in the threads of the conversion, one record in 256
    would take a quarter of its speed.
    """

    def __init__(self) -> None:
        self._done = 0
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: deque[Future[str | None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def add(self, audits: tuple[Audit, ...]) -> None:
        """Have records compared; a difference may be told by a later call.

        Raises
        ------
        AuditError
            If engine and oracle differ about a record.
        """
        for audit in audits:
            if self._done < AT_ONCE:
                self._done += 1
                _judge(audit())
                continue
            if self._pool is None:
                # A process that holds the threads of an engine must not be forked.
                self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver"))
            self._waiting.append(self._pool.submit(audit))
        while self._waiting and (self._waiting[0].done() or len(self._waiting) > WAITING):
            _judge(self._waiting.popleft().result())

    def finish(self) -> None:
        """Wait for all comparisons.

        Raises
        ------
        AuditError
            If engine and oracle differ about a record.
        """
        while self._waiting:
            _judge(self._waiting.popleft().result())


def _judge(difference: str | None) -> None:
    if difference:
        message = f"the engine and its oracle differ, nothing was sealed: {difference}"
        raise AuditError(message)
