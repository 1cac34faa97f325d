from __future__ import annotations

import threading
import time
from collections.abc import Generator

import pytest

from outofcore.domains.text.stream.background import Ahead, side_by_side


def test_items_come_in_order_and_only_so_many_ahead():
    made: list[int] = []

    def numbers() -> Generator[int]:
        for number in range(20):
            made.append(number)
            yield number

    ahead = Ahead(numbers(), 2)
    taken = []
    for number in ahead:
        time.sleep(0.002)
        # One is used, two wait, and one more is ready to.
        assert len(made) <= number + 4
        taken.append(number)
    assert taken == list(range(20))
    ahead.close()


def test_an_error_comes_where_its_item_would_have():
    def numbers() -> Generator[int]:
        yield 1
        message = "no more"
        raise ValueError(message)

    ahead = iter(Ahead(numbers(), 1))
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="no more"):
        next(ahead)


def test_closing_ends_the_generator_and_the_thread():
    ended = threading.Event()

    def endless() -> Generator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    ahead = Ahead(endless(), 1)
    assert next(iter(ahead)) == 1
    ahead.close()
    assert ended.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "text-stream"]


def test_results_come_in_the_order_of_the_items():
    def slow(number: int) -> int:
        time.sleep(0.005 * (number % 3 == 0))
        return number * number

    found = list(side_by_side(slow, range(30), threads=4, ahead=6))
    assert found == [(number, number * number) for number in range(30)]


def test_one_that_was_never_iterated_over_starts_nothing():
    begun: list[int] = []

    def numbers() -> Generator[int]:
        begun.append(1)
        yield 1

    ahead = Ahead(numbers(), 1)
    ahead.close()
    assert not ahead._thread.is_alive()
    assert begun == []
