"""Executors for units: threads or a Dask cluster, behind ``concurrent.futures.Executor``.

Threads are the default: engines, compiled kernels and compressors release the GIL, so nothing need be pickled and sent
through pipes. A Dask cluster serves input that would keep one machine busy for days, and a domain in pure Python.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from outofcore.conversion.cluster import open_cluster
from outofcore.errors import ParamsError
from outofcore.raw.files import RawFile

Item = TypeVar("Item")
Result = TypeVar("Result")


def open_executor(
    engine: str, workers: int, *, address: str = "", files: Sequence[RawFile] = (), domain: str = ""
) -> AbstractContextManager[Executor]:
    """An executor of the named kind, as a context manager; raises ParamsError for an unknown kind.

    ``engine`` is ``threads`` or ``dask``; ``workers`` units are converted at once, unless a cluster
    ``address`` is given; "" starts a temporary local cluster. All workers of a cluster must see ``files``,
    and have the driver's package of the ``domain``.
    """
    if engine == "threads":
        return ThreadPoolExecutor(workers, thread_name_prefix="convert")
    if engine == "dask":
        return open_cluster(address, workers, files, domain)
    raise ParamsError(f"OUTOFCORE_ENGINE: expected threads or dask, got {engine!r}")


def in_order(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Generator[tuple[Item, Result]]:
    """Apply a function in parallel, results in order; at most ``ahead`` items are taken before the first unfinished."""
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    try:
        for item in items:
            waiting.append((item, executor.submit(function, item)))
            if len(waiting) > ahead:
                first, future = waiting.popleft()
                result = future.result()
                yield first, result
                del first, future, result  # units and results are large; release them before waiting for the next
        while waiting:
            first, future = waiting.popleft()
            result = future.result()
            yield first, result
            del first, future, result
    finally:
        for _, future in waiting:
            future.cancel()
