"""Units on the workers of a Dask cluster, behind ``concurrent.futures.Executor``; nothing of Dask is imported before.

Workers convert units, and write the shards of which the driver decides what stands in them
(:mod:`outofcore.convert.shards`). One that dies costs the units that it had in hand, which others convert again. They
see the raw input and the work folder under the same paths as the driver.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, TypeVar

from outofcore.errors import ClusterError, ParamsError
from outofcore.raw.files import RawFile
from outofcore.raw.unit import UnitResult
from outofcore.sizes import format_bytes

CONNECT_SECONDS = 30
# A cluster that has had no worker for so long will get none.
ALONE_SECONDS = 120
# From one look at scheduler and workers to the next, while a unit is awaited.
LOOK_SECONDS = 2
# What a worker holds: the libraries and engines that it has loaded, 280 to 330 MB when measured; and for each of its
# threads a unit, and the rows of those that wait to be encoded.
PROCESS_BYTES = 320 << 20
THREAD_BYTES = 64 << 20
# The file by which a worker knows a folder of the driver's; a filesystem without room does not take so many bytes.
SHARED = "shared"
PROBE_BYTES = 1 << 20
# Of these, equal versions give equal bytes.
PACKAGES = ("outofcore", "numpy", "numba", "numcodecs", "gigatoken", "rust-pgn-reader-python-binding")
_AGAIN = "run 'dvc repro' again, it goes on from there"

Item = TypeVar("Item")


class ClusterExecutor(concurrent.futures.Executor):
    """Submits calls to a cluster.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    where
        The cluster's name, for messages.

    Attributes
    ----------
    width
        Calls that the cluster makes at a time.
    """

    def __init__(self, client: Any, where: str) -> None:
        self.width = max(1, sum(client.nthreads().values()))
        self._client = client
        self._where = where
        self._executor = client.get_executor(pure=False)
        # What is called is large where it holds a tokenizer: it goes to each worker once, not with every unit. As the
        # result of a task it is made again if the worker that had it dies.
        self._functions: dict[int, tuple[Any, Any]] = {}
        self._asked: set[str] = set()
        self._workers_seen = time.monotonic()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Have a call made by a worker."""
        return _Awaited(self, self._executor.submit(_call, self._known(fn), *args, **kwargs))

    def keep(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have a call made by a worker that keeps what comes of it; gives what stands for it in later calls."""
        return self._client.submit(_call, self._known(fn), *args, **kwargs, pure=False)

    def soon(self, fn: Callable[..., Any], /, *args: Any, then: Callable[[Any], Any] | None = None) -> _Awaited:
        """Have a call made by a worker before any that was only submitted, so that few results are kept at a time.

        Parameters
        ----------
        fn, args
            The call; what was kept may be among its arguments.
        then
            Makes the future's result of the call's.
        """
        return _Awaited(self, self._executor.submit(_call, self._known(fn), *args, priority=1), then)

    def share(self, folder: Path) -> None:
        """Make sure that every worker, also one that joins later, can work in a folder of the driver's.

        Raises
        ------
        ClusterError
            If one cannot, or has too little memory or disk of its own.
        """
        token = uuid.uuid4().hex
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SHARED).write_text(token)

        def check(worker: Any) -> None:
            memory = worker.memory_manager.memory_limit
            ask_room(worker.address, memory, worker.state.nthreads, worker.local_directory, folder, token)

        self.ask("shared folder", check)

    def ask(self, what: str, check: Callable[[Any], None]) -> None:
        """Have every worker checked before its next call, also one that joins later; what is raised comes back."""
        self._asked.add(f"outofcore: {what}")
        self._client.register_plugin(_check(f"outofcore: {what}", check))

    def ask_no_more(self) -> None:
        """Let workers join a cluster that outlives this conversion: its files and folders may be gone by then."""
        for name in self._asked:
            if self._client.status == "running":
                with suppress(OSError, ValueError, CancelledError):
                    self._client.unregister_worker_plugin(name)

    def _known(self, fn: Callable[..., Any]) -> Any:
        if id(fn) not in self._functions:
            self._functions[id(fn)] = fn, self._client.submit(_itself, fn, pure=False)
        return self._functions[id(fn)][1]

    def look(self) -> None:
        """Make sure that there is still somebody to wait for.

        Raises
        ------
        ClusterError
            If the scheduler, or for a while every worker, is gone.
        """
        if self._client.status != "running":
            message = f"{self._where}: the connection to the scheduler is lost; {_AGAIN}"
            raise ClusterError(message)
        now = time.monotonic()
        if self._client.nthreads():
            self._workers_seen = now
        elif now - self._workers_seen > ALONE_SECONDS:
            message = f"{self._where}: all workers are gone; start some, and {_AGAIN}"
            raise ClusterError(message)


class _Awaited(concurrent.futures.Future[Any]):
    """A call whose result is waited for as long as the cluster is there: Dask alone would wait for ever."""

    def __init__(
        self,
        executor: ClusterExecutor,
        call: concurrent.futures.Future[Any],
        then: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self._executor = executor
        self._call = call
        self._then = then

    def result(self, timeout: float | None = None) -> Any:
        until = None if timeout is None else time.monotonic() + timeout
        while not self._call.done() and (until is None or time.monotonic() < until):
            concurrent.futures.wait([self._call], LOOK_SECONDS)
            if not self._call.done():
                self._executor.look()
        found = self._call.result(0)
        return self._then(found) if self._then else found

    def done(self) -> bool:
        return self._call.done()

    def cancel(self) -> bool:
        return self._call.cancel()


@contextmanager
def open_cluster(address: str, workers: int, files: Sequence[RawFile]) -> Iterator[ClusterExecutor]:
    """A cluster as an executor.

    Parameters
    ----------
    address
        Of the scheduler; "" for a cluster on this machine that lives as long as the ``with`` block.
    workers
        Processes of a cluster on this machine.
    files
        The raw input, which every worker must see.

    Raises
    ------
    ParamsError
        If Dask is not installed.
    ClusterError
        If no scheduler or worker answers, a worker has other versions or does not see the input, or, from inside the
        block, if the scheduler has gone or the same unit has ended several workers.
    """
    distributed = _imported()
    where = f"the cluster at {address}" if address else "the cluster on this machine"
    with _told(distributed, where), _client(distributed, address, workers) as client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            message = f"the scheduler at {address} has no workers: start some with 'dask worker {address}'"
            raise ClusterError(message) from error
        seen = [(str(file.path), file.bytes) for file in (*files[:1], *files[-1:])]
        expected = versions()
        executor = ClusterExecutor(client, where)
        try:
            executor.ask("like the driver", lambda worker: compare(worker.address, expected, seen))
            yield executor
        finally:
            executor.ask_no_more()


def width(executor: concurrent.futures.Executor, workers: int) -> int:
    """Units that are converted at a time: by a cluster, as many as its workers have threads."""
    return executor.width if isinstance(executor, ClusterExecutor) else workers


def _imported() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        message = "OUTOFCORE_ENGINE=dask needs Dask: pip install 'outofcore[cluster]', or use threads"
        raise ParamsError(message) from error


@contextmanager
def _client(distributed: Any, address: str, workers: int) -> Iterator[Any]:
    if address:
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except OSError as error:
            message = f"no scheduler answers at {address} ({error}); start one with 'dask scheduler', or unset it"
            raise ClusterError(message) from error
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
def _told(distributed: Any, where: str) -> Iterator[None]:
    """What goes wrong with the cluster, in one line."""
    try:
        yield
    except distributed.KilledWorker as error:
        message = f"{where}: {error.allowed_failures + 1} workers died over the same unit ({error}); {_AGAIN}"
        raise ClusterError(message) from error
    except (CancelledError, TimeoutError, import_module("distributed.comm").CommClosedError) as error:
        message = f"{where}: the connection to the scheduler is lost; {_AGAIN}"
        raise ClusterError(message) from error


def _check(name: str, check: Callable[[Any], None]) -> Any:
    """A plugin for every worker; one that raises refuses it."""

    class Check(import_module("distributed").WorkerPlugin):  # type: ignore[misc]  # known at run time only
        def setup(self, worker: Any) -> None:
            check(worker)

    Check.name = name
    return Check()


def versions() -> dict[str, str]:
    """Versions of what decides the bytes of a store."""
    return {name: metadata.version(name) for name in PACKAGES}


def compare(worker: str, expected: dict[str, str], seen: Sequence[tuple[str, int]]) -> None:
    """Make sure that this worker is like the driver.

    Raises
    ------
    ClusterError
        If a version differs, or a file is not there or of another size.
    """
    for name, version in versions().items():
        if version != expected[name]:
            message = f"worker {worker} has {name} {version}, the driver {expected[name]}: install the same on both"
            raise ClusterError(message)
    for path, size in seen:
        if not os.path.isfile(path) or os.path.getsize(path) != size:  # noqa: PTH113, PTH202 - no Path crosses systems
            message = (
                f"worker {worker} in {os.getcwd()} does not see {path} of {size:,} bytes: "  # noqa: PTH109
                "start workers in the project's folder, on a filesystem that all share"
            )
            raise ClusterError(message)


def ask_room(worker: str, memory: int | None, threads: int, spill: str, folder: Path, token: str) -> None:
    """Make sure that this worker shares a folder with the driver, can write there, and has room for its units.

    Parameters
    ----------
    worker
        Its address.
    memory, threads
        Bytes that it may hold, None for no limit, and calls that it makes at a time.
    spill
        Its own folder on its own disk.
    folder, token
        A folder, and what the driver has written into a file in it.

    Raises
    ------
    ClusterError
        If one of this is not so.
    """
    try:
        shared = (folder / SHARED).read_text() == token
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
    except OSError as error:
        message = f"worker {worker} in {os.getcwd()} cannot write to {folder}: {error.strerror or error}"  # noqa: PTH109
        raise ClusterError(message) from error
    if not shared:
        message = (
            f"worker {worker} sees another {folder} than the driver: start workers in the project's folder, "
            "on a filesystem that all share"
        )
        raise ClusterError(message)
    spilled = threads * THREAD_BYTES
    need = PROCESS_BYTES + spilled
    if memory and memory < need:
        message = (
            f"worker {worker} may hold {format_bytes(memory)}, with {threads} threads it needs {format_bytes(need)}: "
            "start it with a higher --memory-limit or a lower --nthreads"
        )
        raise ClusterError(message)
    if (free := shutil.disk_usage(spill).free) < spilled:
        message = (
            f"worker {worker} has {format_bytes(free)} free in {spill}, its {threads} threads may spill "
            f"{format_bytes(spilled)}: make room, or start it with another --local-directory"
        )
        raise ClusterError(message)


def _itself(value: Item) -> Item:
    return value


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make the call; what asks for an oracle asks it here, so that the driver has that much less to do."""
    result = function(*args, **kwargs)
    if not isinstance(result, UnitResult) or not result.audits:
        return result
    found = tuple(difference for audit in result.audits if (difference := audit()))
    return replace(
        result,
        audits=(),
        audited=result.audited + len(result.audits),
        differences=(*result.differences, *found),
    )
