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
from queue import SimpleQueue
from typing import Generic, TypeVar

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


@dataclass(frozen=True)
class Made(Generic[Result]):
    """What became of a task that delivers; neither result nor error at the end of the stream."""

    number: int
    result: Result | None
    error: BaseException | None


class Latch:
    """Something that several tasks bring about; those who need it wait, and learn if one of them failed."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._open = count == 0

    def done(self, error: BaseException | None = None) -> None:
        """Count one task as done."""
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            if self._left == 0:
                self._open = True
                self._event.set()

    def wait(self) -> None:
        """Wait for all of them; raises the error of one that failed."""
        if not self._open:
            self._event.wait()
        if self._error:
            raise self._error


class _Workers(Generic[Result]):
    """What workers hold: not the pipeline itself, so that one that is forgotten can end.

    Handing over goes through queues that are written in C: conditions cost more than a batch's whole plan.
    """

    def __init__(self, stream: Iterator[Task[Result]], depth: int) -> None:
        self.results: SimpleQueue[Made[Result]] = SimpleQueue()
        self.credits: SimpleQueue[None] = SimpleQueue()
        self._stream = stream
        self._pulling = threading.Lock()
        self._pulled = 0
        self._ended = False
        for _ in range(depth):
            self.credits.put(None)

    def work(self) -> None:
        """Follow the stream to its end."""
        while (task := self._pull()) is not None:
            self._run(*task)
            del task  # an idle worker must not keep a batch alive

    def help(self) -> bool:
        """Do one task if that is possible without waiting."""
        if not self._pulling.acquire(blocking=False):
            return False
        try:
            if self._ended or self.credits.empty():
                return False
            task = self._advance()
        finally:
            self._pulling.release()
        if task is not None:
            self._run(*task)
        return True

    def stop(self, threads: list[threading.Thread], process: int) -> None:
        """Let the workers finish what they do, and wait until they are gone."""
        self._ended = True
        if process != os.getpid():
            return  # the threads belong to the process that this one was forked from
        self.credits.put(None)
        for thread in threads:
            if thread is not threading.current_thread():  # a garbage collection may come in any thread
                thread.join()

    def _pull(self) -> tuple[int, Task[Result]] | None:
        """The next task and the number of its result; None at the end."""
        with self._pulling:
            return None if self._ended else self._advance()

    def _advance(self) -> tuple[int, Task[Result]] | None:
        task, error = None, None
        try:
            task = next(self._stream, None)
        except BaseException as failure:  # noqa: BLE001 - raised in the consumer's thread
            error = failure
        number = self._pulled
        if task is None:
            self._ended = True
            self.results.put(Made(number, None, error))
            return None
        if task.delivers:
            self._pulled += 1
            self.credits.get()
        return number, task

    def _run(self, number: int, task: Task[Result]) -> None:
        result, error = None, None
        try:
            result = task.run()
        except BaseException as failure:  # noqa: BLE001 - raised in the consumer's thread
            error = failure
        if task.delivers:
            self.results.put(Made(number, result, error))


class Pipeline(Generic[Result]):
    """Iterates over the results of a stream of tasks.

    A consumer whose next result is not ready does a task itself rather than wait, where that needs no waiting either.

    Parameters
    ----------
    stream
        The tasks; advanced by one thread at a time.
    threads
        Number of workers beside the consumer.
    depth
        Results made or being made that the consumer has not received, at most.

    Attributes
    ----------
    seconds_waited
        Time from asking for a result to having it.
    """

    def __init__(self, stream: Iterator[Task[Result]], threads: int, depth: int) -> None:
        self.seconds_waited = 0.0
        self._workers = _Workers(stream, depth)
        self._early: dict[int, Made[Result]] = {}
        self._next = 0
        running = [
            threading.Thread(target=self._workers.work, name=f"outofcore-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in running:
            thread.start()
        self._stop = weakref.finalize(self, self._workers.stop, running, os.getpid())

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        """The next result, in the order of the stream; raises what its task raised."""
        workers = self._workers
        started = time.perf_counter()
        while self._next not in self._early:
            if not workers.results.empty() or not workers.help():
                made = workers.results.get()
                self._early[made.number] = made
        self.seconds_waited += time.perf_counter() - started
        made = self._early[self._next]
        if made.error is not None:
            raise made.error
        if made.result is None:
            raise StopIteration
        del self._early[self._next]
        self._next += 1
        workers.credits.put(None)
        return made.result

    def close(self) -> None:
        """Stop the workers and wait until they are gone."""
        self._stop()
