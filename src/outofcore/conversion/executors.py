"""Executors for units: threads or a Dask cluster, behind ``concurrent.futures.Executor``.

Threads are the default: engines, compiled kernels and compressors release the GIL, so nothing need be pickled and sent
through pipes. A Dask cluster serves input that would keep one machine busy for days, and a domain in pure Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager

from outofcore.conversion.cluster import open_cluster
from outofcore.errors import ParamsError
from outofcore.raw.files import RawFile


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
