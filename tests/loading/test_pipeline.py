"""One stream of tasks, any number of workers, results in order."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from outofcore.loading.pipeline import Latch, Pipeline, Step, Task, Until
from tests.loading.conftest import threads_since


def numbers(count: int, started: list[int] | None = None, fail_at: int = -1) -> Iterator[Task[int]]:
    """Results 1 to ``count``; each has a task before it that it waits for."""
    for number in range(1, count + 1):
        latch = Latch(1)

        def prepare(latch: Latch = latch) -> None:
            latch.done()

        def make(number: int = number, latch: Latch = latch) -> int:
            latch.wait()
            time.sleep(0.0005 * (number % 3))
            if number == fail_at:
                message = f"no {number}"
                raise KeyError(message)
            return number

        yield Task(prepare, delivers=False)
        if started is not None:
            started.append(number)
        yield Task(make, delivers=True)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("depth", [1, 2, 7])
def test_results_come_in_order(threads: int, depth: int) -> None:
    pipeline = Pipeline(numbers(60), threads, depth)
    assert list(pipeline) == list(range(1, 61))
    assert next(pipeline, None) is None
    pipeline.close()


def test_runs_ahead_no_further_than_allowed() -> None:
    started: list[int] = []
    pipeline = Pipeline(numbers(60, started), 4, 5)
    for received in range(10):
        next(pipeline)
        time.sleep(0.02)
        assert len(started) <= received + 1 + 5 + 1  # one more may be pulled, waiting for its turn
    pipeline.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failure_is_raised_in_its_place(threads: int) -> None:
    pipeline = Pipeline(numbers(20, fail_at=8), threads, 4)
    assert [next(pipeline) for _ in range(7)] == list(range(1, 8))
    for _ in range(2):
        with pytest.raises(KeyError, match="no 8"):
            next(pipeline)
    pipeline.close()


def test_a_failure_of_the_stream_is_raised_too() -> None:
    def stream() -> Iterator[Task[int]]:
        yield Task(lambda: 1, delivers=True)
        message = "no more"
        raise OSError(message)

    pipeline = Pipeline(stream(), 2, 4)
    assert next(pipeline) == 1
    with pytest.raises(OSError, match="no more"):
        next(pipeline)
    pipeline.close()


def test_a_latch_passes_failures_on() -> None:
    latch = Latch(2)
    latch.done(ValueError("bad chunk"))
    latch.done()
    with pytest.raises(ValueError, match="bad chunk"):
        latch.wait()


@pytest.mark.parametrize("how", ["close", "forget", "end"])
def test_workers_end(how: str) -> None:
    before = threading.enumerate()
    pipeline = Pipeline(numbers(50), 3, 4)
    next(pipeline)
    if how == "close":
        pipeline.close()
    elif how == "end":
        list(pipeline)
        pipeline.close()
    else:
        del pipeline
        gc.collect()
    assert not threads_since(before)


@pytest.mark.parametrize("threads", [1, 4])
def test_the_stream_goes_on_once_tasks_have_brought_about_what_it_waits_for(threads: int) -> None:
    done: list[int] = []

    def stream() -> Iterator[Step[int]]:
        for number in range(1, 20):
            yield Task(lambda number=number: done.append(number), delivers=False)  # type: ignore[misc]
            yield Until(lambda number=number: number in done)  # type: ignore[misc]
            yield Task(lambda number=number: number if number in done else None, delivers=True)  # type: ignore[misc]

    pipeline = Pipeline(stream(), threads, 3)
    assert list(pipeline) == list(range(1, 20))
    pipeline.close()


@pytest.mark.parametrize("threads", [1, 4])
def test_closes_while_the_stream_waits_for_what_never_comes(threads: int) -> None:
    def stream() -> Iterator[Step[int]]:
        yield Task(lambda: 1, delivers=True)
        yield Until(lambda: False)

    before = threading.enumerate()
    pipeline = Pipeline(stream(), threads, 3)
    assert next(pipeline) == 1
    pipeline.close()
    assert not threads_since(before)
