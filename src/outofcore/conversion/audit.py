"""Run oracle comparisons in a process of their own, because reference libraries are pure Python."""

from __future__ import annotations

import multiprocessing
from collections import deque
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

from outofcore.conversion.executors import GONE
from outofcore.errors import AuditError, ClusterError
from outofcore.raw.unit import Audit

# Fewer than these run directly: starting a process takes as long.
AT_ONCE = 48
# Most queued comparisons, each with the text and the rows of its record.
WAITING = 256


class Auditors:
    """Runs the comparisons requested by units in parallel with the conversion.

    A reference library holds the GIL while it reads: in the conversion's threads, auditing one record in 256 would cost
    a quarter of its speed.
    """

    def __init__(self) -> None:
        self._done = 0
        self._sound = True
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
        """Queue comparisons; raises AuditError for a difference, possibly in a later call."""
        for audit in audits:
            if self._done < AT_ONCE:
                self._done += 1
                self._judge(audit())
                continue
            if self._pool is None:
                # A process that holds the threads of an engine must not be forked.
                self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver"))
            try:
                self._waiting.append(self._pool.submit(audit))
            except BrokenExecutor as error:
                self._sound = False
                raise ClusterError(GONE) from error
        while self._waiting and (self._waiting[0].done() or len(self._waiting) > WAITING):
            self._judge_first()

    def finish(self) -> None:
        """Wait for all comparisons; raises AuditError for a difference, ClusterError if the process died."""
        while self._waiting:
            self._judge_first()

    def settled(self) -> bool:
        """Wait for all comparisons; returns whether all were made without a difference."""
        with suppress(AuditError, ClusterError):
            self.finish()
        return self._sound

    def _judge_first(self) -> None:
        try:
            difference = self._waiting[0].result()  # Ctrl-C while it waits must not forget it
        except BrokenExecutor as error:
            self._waiting.popleft()
            self._sound = False
            raise ClusterError(GONE) from error
        self._waiting.popleft()
        self._judge(difference)

    def _judge(self, difference: str | None) -> None:
        if difference:
            self._sound = False
            message = f"the engine and its oracle differ, nothing was sealed: {difference}"
            raise AuditError(message)
