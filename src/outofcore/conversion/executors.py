"""Executors for units: threads, processes or a cluster, behind ``concurrent.futures.Executor``.

Threads are the default: engines, compiled kernels and compressors release the GIL, so nothing need be pickled and sent
through pipes. Processes serve a domain in pure Python; a Dask cluster serves input that would keep one machine busy for
days.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from outofcore.conversion.cluster import open_cluster
from outofcore.errors import ClusterError, ParamsError
from outofcore.raw.files import RawFile

GONE = (
    "a worker process has ended in the middle of its work, killed perhaps because memory ran out; "
    "with fewer workers the same command resumes"
)
NEVER_BEGUN = (
    "no worker process has begun its work: a script that converts with engine processes does so below "
    "'if __name__ == \"__main__\":', as each worker imports it; or use engine threads"
)

Item = TypeVar("Item")
Result = TypeVar("Result")


def open_executor(
    engine: str, workers: int, *, address: str = "", files: Sequence[RawFile] = (), domain: str = ""
) -> AbstractContextManager[Executor]:
    """An executor of the named kind, as a context manager; raises ParamsError for an unknown kind.

    ``engine`` is ``threads``, ``processes`` or ``dask``; ``workers`` units are converted at once, unless a cluster
    ``address`` is given; "" starts a temporary local cluster. All workers of a cluster must see ``files``,
    and have the driver's package of the ``domain``.
    """
    if engine == "threads":
        return ThreadPoolExecutor(workers, thread_name_prefix="convert")
    if engine == "processes":
        # A process that holds the threads of an engine must not be forked. Windows only spawns.
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        # Ctrl-C reaches all processes of a terminal: this one ends the others.
        return ProcessPoolExecutor(workers, context, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    if engine == "dask":
        return open_cluster(address, workers, files, domain)
    message = f"OUTOFCORE_ENGINE: expected threads, processes or dask, got {engine!r}"
    raise ParamsError(message)


def in_order(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Generator[tuple[Item, Result]]:
    """Apply a function in parallel, results in order; at most ``ahead`` items are taken before the first unfinished."""
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    begun = False
    try:
        for item in items:
            waiting.append((item, executor.submit(function, item)))
            if len(waiting) > ahead:
                first, future = waiting.popleft()
                result = future.result()
                begun = True
                yield first, result
                del first, future, result  # units and results are large; release them before waiting for the next
        while waiting:
            first, future = waiting.popleft()
            result = future.result()
            begun = True
            yield first, result
            del first, future, result
    except BrokenExecutor as error:
        raise ClusterError(GONE if begun else NEVER_BEGUN) from error
    finally:
        for _, future in waiting:
            future.cancel()
