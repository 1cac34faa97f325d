"""Where units are converted: threads, processes or a cluster, behind ``concurrent.futures.Executor``.

Threads are the default: the engines, the compiled kernels and the compressors release the interpreter lock, so that
nothing need be pickled and sent through pipes. Processes serve a domain whose work is pure Python; a Dask cluster takes
input that would keep one machine busy for days.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from outofcore.convert.cluster import open_cluster
from outofcore.errors import ClusterError, ParamsError
from outofcore.raw.files import RawFile

GONE = (
    "a worker process has ended in the middle of its work, killed perhaps because memory ran out; "
    "with fewer workers the same command goes on from there"
)

Item = TypeVar("Item")
Result = TypeVar("Result")


def open_executor(
    engine: str, workers: int, *, address: str = "", files: Sequence[RawFile] = ()
) -> AbstractContextManager[Executor]:
    """An executor of the named kind, to be used in a ``with`` statement.

    Parameters
    ----------
    engine
        ``threads``, ``processes`` or ``dask``.
    workers
        How many units are converted at once, 1 or more; a cluster that has an address knows that by itself.
    address
        Of the scheduler of a Dask cluster; "" for one on this machine, started for as long as it is used.
    files
        The raw input, which all workers of a cluster must see.

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
    if engine == "dask":
        return open_cluster(address, workers, files)
    message = f"OUTOFCORE_ENGINE: expected threads, processes or dask, got {engine!r}"
    raise ParamsError(message)


def in_order(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[tuple[Item, Result]]:
    """Apply a function to items side by side and give the results in the order of the items.

    Parameters
    ----------
    ahead
        How many items are taken before the first unfinished one: bounds what is in memory.

    Raises
    ------
    ClusterError
        If a process that applies it is gone.
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
    except BrokenExecutor as error:
        raise ClusterError(GONE) from error
    finally:
        for _, future in waiting:
            future.cancel()
