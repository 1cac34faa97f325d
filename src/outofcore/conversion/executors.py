"""Executors for units: threads or a Dask cluster, behind ``concurrent.futures.Executor``; Dask is imported lazily.

Threads are the default: engines, compiled kernels and compressors release the GIL, so nothing need be pickled and sent
through pipes. A Dask cluster serves input that would keep one machine busy for days, and a domain in pure Python. Its
workers convert units, the driver writes the store. If a worker dies, others convert its unfinished units again. All see
the raw input under the same paths as the driver.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from typing import Any, TypeVar

from outofcore.conversion.inputs import versions
from outofcore.errors import ClusterError
from outofcore.raw.files import RawFile
from outofcore.system.extras import load

CONNECT_SECONDS = 30
# A cluster without a worker for this long is considered dead.
ALONE_SECONDS = 120
# Interval of checks of scheduler and workers while a unit is awaited.
LOOK_SECONDS = 2
ATTEMPTS = 4  # to have workers checked while some of them die
_CHECK = "outofcore: like the driver"
_AGAIN = "run the same command again to resume"

Item = TypeVar("Item")


def open_executor(
    engine: str, workers: int, *, address: str = "", files: Sequence[RawFile] = (), domain: str = ""
) -> AbstractContextManager[Executor]:
    """An executor as a context manager: of as many threads as ``workers``, or with ``engine`` ``dask`` of a cluster.

    ``address`` is that of its scheduler; "" starts a temporary local cluster of ``workers`` processes. All workers of a
    cluster must see ``files``, and have the driver's package of the ``domain``.
    """
    if engine == "dask":
        return open_cluster(address, workers, files, domain)
    return ThreadPoolExecutor(workers, thread_name_prefix="convert")


class ClusterExecutor(Executor):
    """Submits calls to a cluster; ``width`` is the number of concurrent calls."""

    def __init__(self, client: Any, where: str) -> None:
        self.width = max(1, sum(client.nthreads().values()))
        self._client = client
        self._where = where
        self._executor = client.get_executor(pure=False)
        # A callable with a tokenizer is large: it is sent to each worker once, not with every unit. As the
        # result of a task it is made again if the worker that had it dies.
        self._functions: dict[int, tuple[Any, Any]] = {}
        self._workers_seen = time.monotonic()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call on a worker."""
        return _Awaited(self, self._executor.submit(_call, self._known(fn), *args, **kwargs))

    def _known(self, fn: Callable[..., Any]) -> Any:
        if id(fn) not in self._functions:
            self._functions[id(fn)] = fn, self._client.submit(_itself, fn, pure=False)
        return self._functions[id(fn)][1]

    def look(self) -> None:
        """Raise ClusterError if the scheduler, or for a while every worker, is gone."""
        if self._client.status != "running":
            raise ClusterError(f"{self._where}: the connection to the scheduler is lost; {_AGAIN}")
        now = time.monotonic()
        if self._client.nthreads():
            self._workers_seen = now
        elif now - self._workers_seen > ALONE_SECONDS:
            raise ClusterError(f"{self._where}: all workers are gone; start some, and {_AGAIN}")


class _Awaited(Future[Any]):
    """A future that fails when the cluster is gone; Dask alone would wait forever."""

    def __init__(self, executor: ClusterExecutor, call: Future[Any]) -> None:
        super().__init__()
        self._executor = executor
        self._call = call

    def result(self, timeout: float | None = None) -> Any:
        del timeout
        while not self._call.done():
            wait([self._call], LOOK_SECONDS)
            if not self._call.done():
                self._executor.look()
        return self._call.result(0)

    def done(self) -> bool:
        return self._call.done()

    def cancel(self) -> bool:
        return self._call.cancel()


@contextmanager
def open_cluster(address: str, workers: int, files: Sequence[RawFile], domain: str) -> Iterator[ClusterExecutor]:
    """A cluster as an executor.

    ``address`` of the scheduler, "" for a local cluster of ``workers`` processes that lives as long as the ``with``
    block; every worker must see ``files`` and have the driver's package of the ``domain``. Raises ParamsError if Dask
    is not installed; ClusterError if no scheduler or worker answers, a worker has other versions or does not see the
    input, or, inside the block, if the scheduler dies or one unit has killed several workers.
    """
    distributed = load("distributed", "cluster", "OUTOFCORE_ENGINE=dask", instead=", or use threads")
    where = f"the cluster at {address}" if address else "the cluster on this machine"
    with _one_line(distributed, where), _client(distributed, address, workers) as client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler at {address} has no workers: start some with 'dask worker {address}'"
            ) from error
        seen = [(str(file.path), file.bytes) for file in (*files[:1], *files[-1:])]
        expected = versions(domain)
        _register(client, _check(lambda worker: compare(worker.address, domain, expected, seen)))
        try:
            yield ClusterExecutor(client, where)
        finally:  # a cluster may outlive this conversion and its files
            if client.status == "running":
                with suppress(OSError, ValueError, CancelledError):
                    client.unregister_worker_plugin(_CHECK)


def width(executor: Executor, workers: int) -> int:
    """Units converted at a time: for a cluster, the number of its workers' threads."""
    return executor.width if isinstance(executor, ClusterExecutor) else workers


@contextmanager
def _client(distributed: Any, address: str, workers: int) -> Iterator[Any]:
    if address:
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except OSError as error:
            raise ClusterError(
                f"no scheduler answers at {address} ({error}); start one with 'dask scheduler', or unset it"
            ) from error
        with client:
            yield client
        return
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _one_line(distributed: Any, where: str) -> Iterator[None]:
    """A cluster error in one line."""
    try:
        yield
    except distributed.KilledWorker as error:
        raise ClusterError(
            f"{where}: {error.allowed_failures + 1} workers died over the same unit ({error}); {_AGAIN}"
        ) from error
    except (CancelledError, TimeoutError, import_module("distributed.comm").CommClosedError) as error:
        raise ClusterError(f"{where}: the connection to the scheduler is lost; {_AGAIN}") from error


def _register(client: Any, plugin: Any) -> None:
    """Have all workers checked, again without those that die meanwhile."""
    for left in reversed(range(ATTEMPTS)):
        try:
            client.register_plugin(plugin)
        except import_module("distributed.comm").CommClosedError:
            if client.status != "running" or not left:
                raise
        else:
            return


def _check(check: Callable[[Any], None]) -> Any:
    """A plugin that checks every worker before its first call, later ones too; an error refuses the worker."""

    class Check(import_module("distributed").WorkerPlugin):  # type: ignore[misc]  # known at run time only
        def setup(self, worker: Any) -> None:
            check(worker)

    Check.name = _CHECK
    return Check()


def compare(worker: str, domain: str, expected: dict[str, str], seen: Sequence[tuple[str, int]]) -> None:
    """Raise ClusterError if this worker differs from the driver in a version, or lacks or has other input files."""
    here = versions(domain)
    for name in sorted(here.keys() | expected.keys()):
        version, wanted = here.get(name, "none"), expected.get(name, "none")
        if version != wanted:
            raise ClusterError(f"worker {worker} has {name} {version}, the driver {wanted}: install the same on both")
    for path, size in seen:
        if not os.path.isfile(path) or os.path.getsize(path) != size:  # noqa: PTH113, PTH202 - no Path crosses systems
            raise ClusterError(
                f"worker {worker} in {os.getcwd()} does not see {path} of {size:,} bytes: "  # noqa: PTH109
                "start workers in the project's folder, on a filesystem that all share"
            )


def _itself(value: Item) -> Item:
    return value


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
