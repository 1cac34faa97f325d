"""Threads begin tasks in their order, keep results and errors, and end with their loader."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError

import numpy as np
import pytest

from outofcore.loading.loader import loader
from outofcore.loading.workers import Workers
from tests.loading.conftest import MakeStore, threads_since


def test_threads_that_wait_for_the_next_epoch_end_with_the_loader(make_store: MakeStore) -> None:
    store = make_store()  # Zarr starts threads of its own when it writes
    before = threading.enumerate()
    batches = loader(store, batch_size=100, memory="8MiB", threads=2)
    list(batches)
    waiting = threads_since(before)
    assert len(waiting) == 5
    list(batches)
    assert threads_since(before) == waiting
    del batches
    gc.collect()
    for thread in waiting:
        thread.join(30)
    assert not threads_since(before)


def test_waiting_is_for_all_that_was_submitted_and_what_that_has_submitted() -> None:
    workers, done = Workers(2, 2), list[int]()

    def work(number: int) -> None:
        time.sleep(0.02)
        if number < 4:
            workers.chunks.submit(work, number + 4)
        done.append(number)

    workers.start()
    for number in range(4):
        workers.pools.submit(work, number)
    workers.wait()
    assert sorted(done) == list(range(8))
    workers.close()


def test_tasks_begin_in_order_and_errors_are_raised_where_results_are_awaited() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        return 10 // number

    workers = Workers(1, 1)
    workers.start()
    tasks = [workers.chunks.submit(work, number) for number in (5, 0, 2)]
    assert tasks[2].result() == 5
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            tasks[1].result()
    assert begun == [5, 0, 2]
    late = [workers.batches.submit(work, number) for number in (1, 10)]
    workers.close()
    workers.close()
    assert [task.result() for task in late] == [10, 1]
    assert not workers.working


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_a_cancelled_task_holds_nothing_even_before_garbage_is_collected() -> None:
    held: list[weakref.ref[np.ndarray]] = []

    def work() -> None:
        buffer = np.empty(10)
        held.append(weakref.ref(buffer))
        raise CancelledError

    workers = Workers(1, 1)
    workers.start()
    tasks = [workers.chunks.submit(work)]
    tasks.append(workers.batches.submit(tasks[0].result))
    with pytest.raises(CancelledError):
        tasks[1].result()
    workers.close()
    tasks.clear()
    assert held[0]() is None
