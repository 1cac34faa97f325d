"""The threads of a loader, and their tasks.

A Ctrl-C can arrive in the consumer's thread at any call. The executors of the standard library hold locks in Python
code, which an interrupt there leaves locked for ever; queues and locks that are written in C are never left half-way.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

_NUMBERS = count()


class Job(Generic[Result]):
    """Work of a thread, and its result."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work: Callable[[], Result] | None = work
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self.undone = threading.Lock()
        self.undone.acquire()

    def run(self) -> None:
        """Do the work, once."""
        work, self._work = self._work, None
        assert work is not None
        try:
            self._results.append(work())
        except CancelledError as error:
            self._error = error.with_traceback(None)  # whose frames hold this job and a batch, in a cycle
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            self._error = error
        finally:
            self.undone.release()

    def wait(self) -> None:
        """Wait until the work is done."""
        with self.undone:
            pass

    def result(self) -> Result:
        """Wait for the result; raises the error of the work."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]


class Threads:
    """Threads that begin tasks in the order in which they were submitted."""

    def __init__(self, number: int, name: str) -> None:
        self._tasks: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._undone: deque[threading.Lock] = deque()  # of what was submitted, held until it is done
        self._threads = [
            threading.Thread(target=_run_all, args=(self._tasks,), name=f"{name}-{place}", daemon=True)
            for place in range(number)
        ]
        weakref.finalize(self, self._tasks.put, None)

    def __contains__(self, ident: int) -> bool:
        """Whether one of the threads has this identifier."""
        return any(thread.ident == ident for thread in self._threads)

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            try:
                thread.start()
            except RuntimeError as error:
                if error.__context__ is None:
                    raise
                raise error.__context__ from None  # a Ctrl-C, which made the standard library release a free lock

    def submit(self, work: Callable[..., Result], *arguments: Any) -> Job[Result]:
        """Let a thread do some work after what was submitted before."""
        task = Job(partial(work, *arguments))
        while self._undone and not self._undone[0].locked():
            self._undone.popleft()
        self._undone.append(task.undone)
        self._tasks.put(task)
        return task

    def wait(self) -> None:
        """Wait until all that was submitted is done."""
        for undone in tuple(self._undone):
            with undone:
                pass

    def end(self) -> None:
        """Wait until the threads have done what was submitted and are gone; completes a call that was interrupted."""
        self._tasks.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()


def _run_all(tasks: SimpleQueue[Job[Any] | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task  # a waiting thread must not keep its result alive
    tasks.put(None)  # for the next thread


class Workers:
    """The threads of a loader: ``threads`` decode chunks, and ``makers`` make batches."""

    def __init__(self, threads: int, makers: int) -> None:
        self._process = os.getpid()
        name = f"outofcore-{next(_NUMBERS)}"
        self.pools = Threads(1, f"{name}-pools")
        self.chunks = Threads(threads, f"{name}-chunks")
        self.batches = Threads(makers, f"{name}-batches")
        self._all = (self.pools, self.chunks, self.batches)  # each may wait for those after it
        self.closed = False  # tasks that begin from now on do nothing

    @property
    def working(self) -> bool:
        """Whether they do what is submitted: they are not closed, nor of the process that this one was forked from."""
        return not self.closed and self._process == os.getpid()

    def start(self) -> None:
        """Start the threads; :meth:`close` ends those that were started where this is interrupted."""
        for threads in self._all:
            threads.start()

    def wait(self) -> None:
        """Wait until all that was submitted is done, also what that has submitted."""
        for threads in self._all:
            threads.wait()

    def close(self) -> bool:
        """Let the threads finish what they are doing, and wait until they are gone; may be called again.

        Returns whether they are gone: garbage collection can run in any thread, also in one of these, which cannot wait
        for itself. Those of a process that this one was forked from are not here.
        """
        self.closed = True
        if self._process != os.getpid():
            return True
        if any(threading.get_ident() in threads for threads in self._all):
            return False
        for threads in self._all:
            threads.end()
        return True
