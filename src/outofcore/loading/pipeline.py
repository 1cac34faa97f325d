"""Worker threads that follow one ordered stream of steps and deliver results in that order.

The stream is the loader's plan: read these chunks, make these batches, read, make, ... Each worker runs one task at a
time, and tasks start in stream order, so any number of workers does the same work. A task may wait for earlier tasks,
as each of them is being run: no deadlock is possible, even with one worker. Waiting for memory is a step of the stream,
so that waiting happens only where closing the loader can interrupt it.

The number of results that the consumer has not returned bounds how far the stream runs ahead.

A Ctrl-C can arrive in the consumer's thread at any call. So that thread never waits on a condition, which may have
released its lock when interrupted, and an interrupted close can be completed by another call.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

Result = TypeVar("Result")

_WAIT_SECONDS = 0.05


@dataclass(frozen=True)
class Task(Generic[Result]):
    """A step of the stream that a worker runs."""

    run: Callable[[], Result | None]
    delivers: bool  # the result goes to the consumer; a task that does not deliver must not raise


@dataclass(frozen=True)
class Until:
    """A step that ends once a condition holds, which finishing tasks may bring about."""

    holds: Callable[[], bool]


Step = Task[Result] | Until


class Latch:
    """An event completed by several tasks; waiting raises the error of one that failed."""

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

    def run(self, work: Callable[[], object]) -> None:
        """Run one of the tasks; its error is raised where the latch is waited for."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised by wait
            self.done(error)
        else:
            self.done()

    def wait(self) -> None:
        """Wait for all of them; raises the error of one that failed."""
        if not self._open:
            self._event.wait()
        if self._error:
            raise self._error


class _Line(Generic[Result]):
    """State shared by workers and consumer, separate from the pipeline so that an unreferenced one can end."""

    def __init__(self, stream: Iterator[Step[Result]], depth: int) -> None:
        self.lock = threading.Lock()
        self.moved = threading.Condition(self.lock)  # awaited by the worker that advances the stream
        # Results and errors of delivering tasks, by number; the end of the stream has neither.
        self.results: dict[int, tuple[Result | None, BaseException | None]] = {}
        self._news = threading.Lock()  # held while there is no news: a result is made, or a worker is gone
        self._news.acquire()
        self.given_back = 0
        self._stream = stream
        self._depth = depth
        self._turn = threading.Lock()  # held by the worker that advances the stream
        self._pulled = 0
        self._ended = False
        self._working: set[int] = set()

    def work(self) -> None:
        """Follow the stream to its end."""
        worker = threading.get_ident()
        with self.lock:
            if self._ended:  # an interrupted start
                return
            self._working.add(worker)
        try:
            while (pulled := self._pull()) is not None:
                self._run(*pulled)
                del pulled  # a waiting worker must not keep batches alive
        finally:
            with self.lock:
                self._working.discard(worker)
            self._tell()

    def stop(self, threads: list[threading.Thread], process: int) -> None:
        """Let the workers finish their tasks, and wait until they are gone; may be called again."""
        if process != os.getpid():
            return  # the threads belong to the process that this one was forked from
        with self.lock:
            self._ended = True
            self.moved.notify()
        while self._working - {threading.get_ident()}:  # garbage collection can run in any thread
            self.wait()
        for thread in threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def wait(self) -> None:
        """Wait for news, with a timeout, as an interrupted consumer may have missed them."""
        self._news.acquire(timeout=_WAIT_SECONDS)

    def _tell(self) -> None:
        with suppress(RuntimeError):  # there is news already
            self._news.release()

    def _pull(self) -> tuple[int, Task[Result]] | None:
        """The next task and the number of its result; None at the end."""
        with self._turn:
            while not self._ended:
                try:
                    step = next(self._stream)
                except BaseException as error:  # noqa: BLE001 - raised in the consumer's thread
                    self._deliver(self._pulled, None, None if isinstance(error, StopIteration) else error)
                    self._ended = True
                    break
                if isinstance(step, Until):
                    self._wait(step.holds)
                    continue
                number = self._pulled
                if step.delivers:
                    self._pulled += 1
                    self._wait(partial(self._may_be_made, number))
                return None if self._ended else (number, step)
        return None

    def _may_be_made(self, number: int) -> bool:
        return number < self.given_back + self._depth

    def _wait(self, holds: Callable[[], bool]) -> None:
        with self.lock:
            self.moved.wait_for(lambda: self._ended or holds())

    def _run(self, number: int, task: Task[Result]) -> None:
        result, error = None, None
        try:
            result = task.run()
        except BaseException as failure:  # noqa: BLE001 - raised in the consumer's thread
            error = failure
        if task.delivers:
            self._deliver(number, result, error)
        with self.lock:
            self.moved.notify()

    def _deliver(self, number: int, result: Result | None, error: BaseException | None) -> None:
        with self.lock:
            self.results[number] = result, error
        self._tell()


class Pipeline(Generic[Result]):
    """Iterates over the results of a stream of tasks; at most ``depth`` are made, in the making or in use."""

    def __init__(self, stream: Iterator[Step[Result]], threads: int, depth: int) -> None:
        self.seconds_waited = 0.0
        self._line = _Line(stream, depth)
        self._next = 0
        self._process = os.getpid()
        self._threads = [
            threading.Thread(target=self._line.work, name=f"outofcore-{number}", daemon=True)
            for number in range(threads)
        ]
        self._started = False
        self._forgotten = weakref.finalize(self, self._line.stop, self._threads, self._process)

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        """The next result in stream order, or the error of its task; releases the previous result."""
        if not self._started:  # not earlier: the owner can close the pipeline if this is interrupted
            self._started = True
            for thread in self._threads:
                thread.start()
        line = self._line
        with line.lock:
            line.given_back = self._next
            line.moved.notify()
        if self._next not in line.results:
            started = time.perf_counter()
            while self._next not in line.results:
                line.wait()
            self.seconds_waited += time.perf_counter() - started
        result, error = line.results[self._next]
        if error is not None:
            raise error
        if result is None:
            raise StopIteration
        del line.results[self._next]
        self._next += 1
        return result

    def close(self) -> None:
        """Stop the workers and wait until they are gone; another call completes an interrupted close."""
        self._line.stop(self._threads, self._process)
        self._forgotten.detach()
