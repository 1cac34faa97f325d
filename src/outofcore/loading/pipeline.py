"""Worker threads that follow one ordered stream of steps and hand results over in that order.

The stream is the loader's plan: read these chunks, make these batches, read, make, ... A worker takes the next task
when it has done its last and holds no other, so any number of workers does the same work in the same order of
beginnings, and a task may wait for tasks before it in the stream: each of them is being run. No deadlock is possible,
with one worker neither. What the stream itself must wait for (room in memory) it names as a step, so that nobody waits
where a consumer who has had enough cannot wake him.

How far the stream runs ahead of the consumer is bounded by the number of results that he has not given back.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Task(Generic[Result]):
    """A step of the stream that a worker runs.

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
class Until:
    """A step of the stream that is over once a condition holds; tasks that end may bring it about."""

    holds: Callable[[], bool]


Step = Task[Result] | Until


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


@dataclass(frozen=True)
class _Made(Generic[Result]):
    """What became of a task that delivers; neither result nor error at the end of the stream."""

    result: Result | None
    error: BaseException | None


class _Line(Generic[Result]):
    """What workers and consumer share: not the pipeline itself, so that one that is forgotten can end."""

    def __init__(self, stream: Iterator[Step[Result]], depth: int) -> None:
        self.lock = threading.Lock()
        self.delivered = threading.Condition(self.lock)  # the consumer waits for it
        self.moved = threading.Condition(self.lock)  # whoever advances the stream does
        self.made: dict[int, _Made[Result]] = {}
        self.given_back = 0
        self._stream = stream
        self._depth = depth
        self._turn = threading.Lock()  # whose it is to advance the stream
        self._pulled = 0
        self._ended = False

    def work(self) -> None:
        """Follow the stream to its end."""
        while (pulled := self._pull()) is not None:
            self._run(*pulled)
            del pulled  # a worker that waits must not keep batches alive

    def stop(self, threads: list[threading.Thread], process: int) -> None:
        """Let the workers finish what they do, and wait until they are gone."""
        if process != os.getpid():
            return  # the threads belong to the process that this one was forked from
        with self.lock:
            self._ended = True
            self.moved.notify()
        for thread in threads:
            if thread is not threading.current_thread():  # a garbage collection may come in any thread
                thread.join()

    def _pull(self) -> tuple[int, Task[Result]] | None:
        """The next task and the number of its result; None at the end."""
        with self._turn:
            while not self._ended:
                try:
                    step = next(self._stream)
                except BaseException as error:  # noqa: BLE001 - raised in the consumer's thread
                    self._deliver(self._pulled, _Made(None, None if isinstance(error, StopIteration) else error))
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
            self._deliver(number, _Made(result, error))
        with self.lock:
            self.moved.notify()

    def _deliver(self, number: int, made: _Made[Result]) -> None:
        with self.lock:
            self.made[number] = made
            self.delivered.notify()


class Pipeline(Generic[Result]):
    """Iterates over the results of a stream of tasks.

    Parameters
    ----------
    stream
        The steps; advanced by one thread at a time.
    threads
        Number of workers.
    depth
        Results made, being made, or in the consumer's hands, at most.

    Attributes
    ----------
    seconds_waited
        Time that the consumer spent waiting.
    """

    def __init__(self, stream: Iterator[Step[Result]], threads: int, depth: int) -> None:
        self.seconds_waited = 0.0
        self._line = _Line(stream, depth)
        self._next = 0
        running = [
            threading.Thread(target=self._line.work, name=f"outofcore-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in running:
            thread.start()
        self._stop = weakref.finalize(self, self._line.stop, running, os.getpid())

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        """The next result, in the order of the stream, taken as a sign that the last one is used up.

        Raises what its task raised.
        """
        line = self._line
        with line.lock:
            line.given_back = self._next
            line.moved.notify()
            if self._next not in line.made:
                started = time.perf_counter()
                line.delivered.wait_for(lambda: self._next in line.made)
                self.seconds_waited += time.perf_counter() - started
            made = line.made[self._next]
            if made.error is not None:
                raise made.error
            if made.result is None:
                raise StopIteration
            del line.made[self._next]
        self._next += 1
        return made.result

    def close(self) -> None:
        """Stop the workers and wait until they are gone."""
        self._stop()
