"""Where units are converted: threads or processes, behind ``concurrent.futures.Executor``.

Threads are the default: the engines, the compiled kernels and the compressors release the interpreter lock, so that
nothing need be pickled and sent through pipes. Processes serve a domain whose work is pure Python.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from outofcore.errors import ParamsError

Item = TypeVar("Item")
Result = TypeVar("Result")


def open_executor(engine: str, workers: int) -> AbstractContextManager[Executor]:
    """An executor of the named kind, to be used in a ``with`` statement.

    Parameters
    ----------
    engine
        ``threads`` or ``processes``.
    workers
        How many units are converted at once, 1 or more.

    Raises
    ------
    ParamsError
        If the engine is of no known kind.
    """
    if engine == "threads":
        return ThreadPoolExecutor(workers, thread_name_prefix="convert")
    if engine == "processes":
        # A process that holds the threads of an engine must not be forked.
        return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("forkserver"))
    message = f"OUTOFCORE_ENGINE: expected threads or processes, got {engine!r}"
    raise ParamsError(message)


def in_order(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[tuple[Item, Result]]:
    """Apply a function to items side by side and give the results in the order of the items.

    Parameters
    ----------
    ahead
        How many items are taken before the first unfinished one: bounds what is in memory.
    """
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    try:
        for item in items:
            waiting.append((item, executor.submit(function, item)))
            if len(waiting) > ahead:
                first, future = waiting.popleft()
                yield first, future.result()
                del first, future  # a unit and its result are large; do not hold them while the next are awaited
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
            del first, future
    finally:
        for _, future in waiting:
            future.cancel()
