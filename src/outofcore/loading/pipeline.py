"""Worker threads that follow one ordered stream of tasks and hand results over in that order.

The stream is the loader's plan: read these chunks, gather this batch, read, gather, ... Each worker takes the next task
when it has done its last, so any number of workers does the same work in the same order of beginnings, and a task
may wait for tasks before it in the stream (they have begun, and wait for none behind them): no deadlock is possible,
with one worker neither. How far the stream runs ahead of the consumer is bounded by the number of results waiting.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Task(Generic[Result]):
    """A step of the stream.

    Attributes
    ----------
    run
        What to do.
    delivers
        Whether what it returns goes to the consumer. A task that does not deliver must not raise: it tells of a failure
        through those that wait for it.
    """

    run: Callable[[], Result | None]
    delivers: bool


class Latch:
    """Something that several tasks bring about; those who need it wait, and learn if one of them failed."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._event = threading.Event()
        if count == 0:
            self._event.set()

    def done(self, error: BaseException | None = None) -> None:
        """Count one task as done."""
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            if self._left == 0:
                self._event.set()

    def wait(self) -> None:
        """Wait for all of them; raises the error of one that failed."""
        self._event.wait()
        if self._error:
            raise self._error


class _Shared(Generic[Result]):
    """What workers and consumer share; workers hold this, not the pipeline, so that a forgotten pipeline can end."""

    def __init__(self, stream: Iterator[Task[Result]], depth: int) -> None:
        self.stream = stream
        self.pulling = threading.Lock()
        self.changed = threading.Condition()
        self.free = depth
        self.pulled = 0
        self.total: int | None = None
        self.results: dict[int, tuple[Result | None, BaseException | None]] = {}
        self.stopped = False

    def pull(self) -> tuple[int, Task[Result]] | None:
        """The next task and the number of its result; None at the end."""
        with self.pulling:
            if self.stopped or self.total is not None:
                return None
            try:
                task = next(self.stream, None)
            except BaseException as error:  # noqa: BLE001 - handed to the consumer, whose thread raises it
                self.put(self.pulled, None, error)
                self.finish(self.pulled + 1)
                return None
            if task is None:
                self.finish(self.pulled)
                return None
            number = self.pulled
            if task.delivers:
                self.pulled += 1
                with self.changed:
                    self.changed.wait_for(lambda: self.free > 0 or self.stopped)
                    self.free -= 1
            return number, task

    def put(self, number: int, result: Result | None, error: BaseException | None) -> None:
        with self.changed:
            self.results[number] = result, error
            self.changed.notify_all()

    def finish(self, total: int) -> None:
        with self.changed:
            self.total = total
            self.changed.notify_all()

    def work(self) -> None:
        while (pulled := self.pull()) is not None:
            number, task = pulled
            try:
                result = task.run()
            except BaseException as error:  # noqa: BLE001 - handed to the consumer, whose thread raises it
                self.put(number, None, error)
            else:
                if task.delivers:
                    self.put(number, result, None)
            del pulled, task

    def stop(self, threads: list[threading.Thread], process: int) -> None:
        self.stopped = True
        if process != os.getpid():
            return  # the threads belong to the process that this one was forked from
        with self.changed:
            self.changed.notify_all()
        for thread in threads:
            if thread is not threading.current_thread():  # a garbage collection may come in any thread
                thread.join()
        self.results.clear()


class Pipeline(Generic[Result]):
    """Iterates over the results of a stream of tasks.

    Parameters
    ----------
    stream
        The tasks; advanced by one worker at a time.
    threads
        Number of workers.
    depth
        Results made or being made that the consumer has not received, at most.

    Attributes
    ----------
    seconds_waited
        Time that the consumer spent waiting.
    """

    def __init__(self, stream: Iterator[Task[Result]], threads: int, depth: int) -> None:
        self.seconds_waited = 0.0
        self._shared = _Shared(stream, depth)
        self._next = 0
        self._process = os.getpid()
        workers = [
            threading.Thread(target=self._shared.work, name=f"outofcore-{number}", daemon=True)
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        self._stop = weakref.finalize(self, self._shared.stop, workers, self._process)

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        """The next result, in the order of the stream; raises what its task raised."""
        shared = self._shared
        started = time.perf_counter()
        with shared.changed:
            shared.changed.wait_for(self._there)
            result, error = shared.results.pop(self._next, (None, None))
            ended = result is None and error is None
            shared.free += 1
            shared.changed.notify_all()
        self.seconds_waited += time.perf_counter() - started
        if ended:
            raise StopIteration
        self._next += 1
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # a task that delivers returns a result

    def close(self) -> None:
        """Stop the workers and wait until they are gone."""
        self._stop()

    def _there(self) -> Any:
        total = self._shared.total
        return self._next in self._shared.results or (total is not None and self._next >= total)
