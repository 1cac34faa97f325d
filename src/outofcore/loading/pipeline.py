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
    alone
        Whether it takes long enough to be a worker's only task.
    """

    run: Callable[[], Result | None]
    delivers: bool
    alone: bool = False


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

    Threads that hand over every result wake each other for each, which on many machines takes longer than making a
    small batch. So a worker takes several tasks at a time and hands over what became of them together, and the consumer
    gives back credit when it has used up what it was handed.
    """

    def __init__(self, stream: Iterator[Task[Result] | None], depth: int, together: int) -> None:
        self.results: SimpleQueue[list[Made[Result]]] = SimpleQueue()
        self.credits: SimpleQueue[None] = SimpleQueue()
        self._stream = stream
        self._together = together
        self._pulling = threading.Lock()
        self._pulled = 0
        self._ended = False
        for _ in range(depth):
            self.credits.put(None)

    def work(self) -> None:
        """Follow the stream to its end."""
        while tasks := self._pull():
            made = [self._run(number, task) for number, task in tasks]
            delivered = [each for each in made if each is not None]
            if delivered:
                self.results.put(delivered)
            del tasks, made, delivered  # an idle worker must not keep batches alive

    def stop(self, threads: list[threading.Thread], process: int) -> None:
        """Let the workers finish what they do, and wait until they are gone."""
        self._ended = True
        if process != os.getpid():
            return  # the threads belong to the process that this one was forked from
        self.credits.put(None)
        for thread in threads:
            if thread is not threading.current_thread():  # a garbage collection may come in any thread
                thread.join()

    def _pull(self) -> list[tuple[int, Task[Result]]]:
        """The next tasks and the numbers of their results; none at the end."""
        tasks: list[tuple[int, Task[Result]]] = []
        delivering = 0
        with self._pulling:
            while not self._ended and delivering < self._together:
                if delivering and self.credits.empty():
                    break
                error = None
                try:
                    task = next(self._stream)
                except StopIteration:
                    self._ended = True
                except BaseException as failure:  # noqa: BLE001 - raised in the consumer's thread
                    self._ended, error = True, failure
                if self._ended:
                    self.results.put([Made(self._pulled, None, error)])
                elif task is None:
                    if tasks:
                        break
                elif task.delivers:
                    self.credits.get()
                    tasks.append((self._pulled, task))
                    self._pulled += 1
                    delivering += 1
                else:
                    tasks.append((self._pulled, task))
                    if task.alone:
                        break
        return tasks

    @staticmethod
    def _run(number: int, task: Task[Result]) -> Made[Result] | None:
        result, error = None, None
        try:
            result = task.run()
        except BaseException as failure:  # noqa: BLE001 - raised in the consumer's thread
            error = failure
        return Made(number, result, error) if task.delivers else None


class Pipeline(Generic[Result]):
    """Iterates over the results of a stream of tasks.

    Parameters
    ----------
    stream
        The tasks; advanced by one thread at a time. It gives None before it waits for tasks that it gave before.
    threads
        Number of workers.
    depth
        Results made or being made that the consumer has not received, at most.
    together
        Results that are handed over at a time, at most.

    Attributes
    ----------
    seconds_waited
        Time that the consumer spent waiting.
    """

    def __init__(self, stream: Iterator[Task[Result] | None], threads: int, depth: int, together: int = 1) -> None:
        self.seconds_waited = 0.0
        self._workers = _Workers(stream, depth, together)
        self._early: dict[int, Made[Result]] = {}
        self._next = 0
        self._used = 0
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
        if self._next not in self._early:
            started = time.perf_counter()
            for _ in range(self._used):
                self._workers.credits.put(None)
            self._used = 0
            while self._next not in self._early:
                self._early.update({made.number: made for made in self._workers.results.get()})
            self.seconds_waited += time.perf_counter() - started
        made = self._early[self._next]
        if made.error is not None:
            raise made.error
        if made.result is None:
            raise StopIteration
        del self._early[self._next]
        self._next += 1
        self._used += 1
        return made.result

    def close(self) -> None:
        """Stop the workers and wait until they are gone."""
        self._stop()
