"""A Ctrl-C at any moment of the consumer's thread costs what was not delivered yet, and nothing else.

Python raises KeyboardInterrupt where a function begins, or where a C function returns. A profiler is called at those
points, so a profiler that raises simulates a signal at exactly that moment.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import outofcore.loading
from outofcore.loading.dataset import ZarrDataset
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from tests.loading.conftest import identities, write_store

# Python drops a KeyboardInterrupt that comes while it frees an object.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FOLDER = str(Path(outofcore.loading.__file__).parent)
START = threading.Thread.start.__code__


def interrupted(work: Callable[[], Any], point: int) -> bool:
    """Do some work, and raise a KeyboardInterrupt at its point of this number; whether there is one."""
    left = point

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        if event in ("call", "c_return") and (frame.f_code.co_filename.startswith(FOLDER) or frame.f_code is START):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before = sys.getprofile()
    try:
        sys.setprofile(look)
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(before)
    return left < 0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("store") / "a.zarr", [190, 130], chunk_rows=16, shard_rows=64)


def open_loader(store: Path, residency: Any) -> Loader:
    return loader(
        store,
        batch_size=64,
        seed=5,
        memory="1MiB",
        residency=residency,
        shuffle=Shuffle(pool_blocks=4),
        tensors=("id",),
        threads=2,
    )


@pytest.mark.parametrize("residency", ["streamed", "ram"])
def test_an_epoch_may_be_interrupted_anywhere(store: Path, residency: Any) -> None:
    expected = identities(open_loader(store, residency))
    batches = open_loader(store, residency)
    seen: list[int] = []

    def begin() -> None:
        iterator = iter(batches)
        for _ in range(2):
            seen.extend(next(iterator)["id"].tolist())
        batches.close()

    point = 0
    while True:
        seen.clear()
        batches.set_epoch(0)
        if not interrupted(begin, point):
            break
        assert seen == expected[: len(seen)]
        assert batches.state_dict()["received"] == len(seen)
        state = batches.state_dict()
        batches.load_state_dict(state)
        assert seen + identities(batches) == expected
        point += 1
    assert point > 10
    batches.close()


def test_signals_at_any_moment_cost_no_batch_and_stop_nothing(store: Path) -> None:
    expected = identities(open_loader(store, "streamed"))
    batches, dice, seen = open_loader(store, "streamed"), random.Random(1), []
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(200):
            seen = []
            try:
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0005, 0.01))
                for batch in batches:
                    seen.extend(batch["id"].tolist())
                    time.sleep(0.001)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                received = batches.state_dict()["received"]
                assert received - len(seen) in (0, 64)  # a batch that was handed over, but not taken, is counted
                assert seen == expected[: len(seen)]
            batches.load_state_dict(batches.state_dict() | {"received": 0, "epoch": 0})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    batches.close()


def test_a_dataset_may_be_interrupted_anywhere(store: Path) -> None:
    numbers = [300, 2, 100, 5, 200]
    point = 0
    while True:
        data = ZarrDataset(store, tensors=("id",), memory=16 * 8 * 3)  # chunks come and go
        data[0]
        if not interrupted(lambda: data[numbers], point):  # noqa: B023 - called at once
            break
        for _ in range(2):
            assert data[numbers]["id"].tolist() == numbers
        assert data[range(320)]["id"].tolist() == list(range(320))
        point += 1
    assert point > 10
