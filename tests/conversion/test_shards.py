"""What the driver does when the workers that write shards no longer answer."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.conversion.cluster import _Awaited
from outofcore.conversion.shards import WorkerShards
from outofcore.domains.sections import StoreSection
from outofcore.raw.rows import KeptRows
from outofcore.store.schema import Field


class Silent:
    """A cluster that takes every call and ends none."""

    width = 1

    def share(self, folder: Path) -> None:
        del folder

    def soon(self, *_: Any, **__: Any) -> _Awaited:
        return _Awaited(self, Future())

    def look(self) -> None:
        """There is still somebody to wait for."""


def test_a_stopped_conversion_does_not_wait_for_workers_that_do_not_answer(tmp_path: Path) -> None:
    shards = WorkerShards(Silent(), tmp_path)
    field = Field(name="number", dtype="int32", doc="a number")
    layout = StoreSection(chunk_rows=16, shard_rows=32).layout()
    table = shards.table(tmp_path, "train", (field,), layout, None)
    table.append(KeptRows(object(), np.array([[0, 20]])))
    shards.stop_within(0.0)
    with pytest.raises(TimeoutError):
        table.snapshot()
