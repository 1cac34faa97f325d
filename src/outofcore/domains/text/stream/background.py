"""Produce items in a thread while earlier ones are used."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAIT_SECONDS = 0.1


class Ahead(Generic[Item]):
    """The items of a generator, produced by a thread that stays up to ``ahead`` items ahead.

    The thread starts with the iteration, so that the owner can close it even if a Ctrl-C arrives just then. An error of
    the generator is raised in place of its item.
    """

    def __init__(self, items: Generator[Item], depth: int) -> None:
        self._items = items
        self._made: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="text-stream", daemon=True)

    def __iter__(self) -> Iterator[Item]:
        self._thread.start()
        while True:
            item, error = self._made.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item

    def close(self) -> None:
        """Stop the thread and end the generator."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                if not self._put(item, None):
                    break
        except BaseException as caught:  # noqa: BLE001 - raised in the thread that waits for the item
            error = caught
        self._items.close()
        self._put(None, error)

    def _put(self, item: Item | None, error: BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._made.put((item, error), timeout=_WAIT_SECONDS)
            except queue.Full:
                continue
            return True
        return False


def side_by_side(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int, ahead: int
) -> Generator[tuple[Item, Result]]:
    """Apply a function to items in several threads; results keep the order of the items.

    At most ``ahead`` items are taken before the first unfinished one, which bounds memory.
    """
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="text-stream")
    try:
        for item in items:
            waiting.append((item, pool.submit(function, item)))
            if len(waiting) > ahead:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
