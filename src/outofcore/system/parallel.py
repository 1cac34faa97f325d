"""Work of many threads or machines, its results in the order of its items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Generator[tuple[Item, Result]]:
    """Apply a function in parallel, results in order; at most ``ahead`` items are taken before the first unfinished."""
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    rest = iter(items)
    try:
        while True:
            for item in islice(rest, ahead + 1 - len(waiting)):
                waiting.append((item, executor.submit(function, item)))
            if not waiting:
                return
            first, future = waiting.popleft()
            result = future.result()
            yield first, result
            del first, future, result  # units and results are large; release them before waiting for the next
    finally:
        for _, future in waiting:
            future.cancel()
