"""Run oracle comparisons in a process of their own, because reference libraries are pure Python."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from outofcore.conversion.executors import GONE
from outofcore.errors import AuditError, ClusterError
from outofcore.raw.unit import Audit, difference

# So many are held until there are more, else run directly: starting a process takes as long.
HELD = 48
# Most queued comparisons, each with the text and the rows of its record; the pipe must hold all their answers.
WAITING = 256
# Not a worker of multiprocessing, which would run the user's script once more where that has no __main__ guard.
_COMMAND = """
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
sys.path[:] = connection.recv()
from outofcore.conversion.audit_process import serve
serve(connection)
"""


class Auditors:
    """Runs the comparisons requested by units in parallel with the conversion.

    A reference library holds the GIL while it reads: in the conversion's threads, auditing one record in 256 would cost
    a quarter of its speed.
    """

    def __init__(self) -> None:
        self._held: list[Audit] = []
        self._waiting = 0
        self._sound = True
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def add(self, audits: tuple[Audit, ...]) -> None:
        """Queue comparisons; raises AuditError for a difference, possibly in a later call."""
        if self._connection is None and len(self._held) + len(audits) <= HELD:
            self._held += audits
            return
        waiting, self._held = [*self._held, *audits], []
        for audit in waiting:
            self._queue(audit)

    def finish(self) -> None:
        """Wait for all comparisons; raises AuditError for a difference, ClusterError if the process died."""
        while self._held:
            self._judge(difference(self._held[0]))
            del self._held[0]
        while self._waiting:
            self._judge_next()

    def _queue(self, audit: Audit) -> None:
        while self._waiting and (self._waiting >= WAITING or self._has_answer()):
            self._judge_next()
        try:
            connection = self._connection or self._start()
            connection.send(audit)
        except OSError as error:  # the process has ended: after a difference, which is waiting, or by itself
            self.finish()
            self._sound = False
            raise ClusterError(GONE) from error
        self._waiting += 1

    def settled(self) -> bool:
        """Wait for all comparisons; returns whether all were made without a difference."""
        with suppress(AuditError, ClusterError):
            self.finish()
        return self._sound

    def _has_answer(self) -> bool:
        return self._connection is not None and self._connection.poll()

    def _start(self) -> Connection:
        self._connection, theirs = multiprocessing.Pipe()
        with theirs:
            # In a process group of its own, Ctrl-C does not reach it: what is queued is still compared.
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-P", "-c", _COMMAND, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                process_group=0,
                # Threads of a BLAS, which no comparison uses, would spin for a tenth of a second each.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        self._connection.send(sys.path)
        return self._connection

    def _judge_next(self) -> None:
        assert self._connection is not None
        self._connection.poll(None)  # Ctrl-C while it waits forgets no answer, in the midst of one would
        try:
            found = self._connection.recv()
        except BaseException as error:
            self._waiting = 0
            self._sound = False
            if isinstance(error, EOFError | OSError):
                raise ClusterError(GONE) from error
            raise
        self._waiting -= 1
        self._judge(found)

    def _judge(self, found: str | None) -> None:
        if found:
            self._sound = False
            message = f"the engine and its oracle differ, nothing was sealed: {found}"
            raise AuditError(message)
