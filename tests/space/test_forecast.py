"""The arithmetic of needs by filesystem."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.space import forecast
from outofcore.space.dvc_cache import DvcCache
from outofcore.space.filesystems import Filesystem
from outofcore.space.forecast import (
    LOG_BYTES,
    Demand,
    Need,
    Purpose,
    demands,
    experiment_needs,
    store_needs,
    training_needs,
)
from outofcore.space.links import plan_commit
from tests.space.conftest import MIB, Disk


class Paper(Filesystem):
    """A filesystem of a stated size; the first part of a path names it."""

    def free(self) -> int:
        return int(self.kind)

    def total(self) -> int:
        return 2 * int(self.kind)


def forecast_of(needs: Sequence[Need], free: int, margin: float, reserve: int) -> tuple[Demand, ...]:
    def place(path: Path) -> Filesystem:
        return Paper(path.parts[1], Path("/", path.parts[1]), str(free), path)

    with patch.object(forecast, "filesystem_of", place):
        return demands(needs, margin=margin, reserve=reserve)


sizes = st.integers(0, 2**60)
paths = st.sampled_from(["/a/store", "/a/cache", "/b/cache", "/c/x/y"]).map(Path)
some_needs = st.lists(st.builds(Need, paths, st.sampled_from(Purpose), sizes), max_size=12)
margins = st.floats(0, 10, allow_nan=False)


@given(some_needs, sizes, margins, sizes)
def test_every_need_counts_once_where_it_lies(needs: list[Need], free: int, margin: float, reserve: int) -> None:
    found = forecast_of(needs, free, margin, reserve)
    assert sum(demand.bytes for demand in found) == sum(need.bytes for need in needs)
    assert len({demand.filesystem for demand in found}) == len(found)
    for demand in found:
        own = [need for need in needs if need.path.parts[1] == demand.filesystem.identity]
        assert list(demand.needs) == own
        sums = {purpose: sum(need.bytes for need in own if need.purpose == purpose) for purpose in Purpose}
        assert demand.purposes == {purpose: sums[purpose] for purpose in dict.fromkeys(need.purpose for need in own)}
        exact = sum(need.bytes for need in own) * (1 + Fraction(str(margin)))
        assert exact <= demand.bytes + demand.margin < exact + 1
        assert demand.reserve == min(reserve, 2 * free // 20)
        assert demand.fits == (demand.bytes == 0 or demand.bytes + demand.margin + demand.reserve <= free)


def commit(types: str, working: str) -> forecast.Commit:
    found = plan_commit(DvcCache(Path("/p"), Path("/c"), tuple(types.split(",")), ""), tuple(working.split(",")))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("types", "working", "purposes"),
    [
        ("hardlink,symlink", "hardlink,symlink,copy", {Purpose.STORE: 10}),
        ("hardlink,symlink", "symlink,copy", {Purpose.STORE: 10, Purpose.DVC_COPY: 10}),
        ("reflink,copy", "hardlink,copy", {Purpose.STORE: 10, Purpose.DVC_COPY: 10}),
    ],
)
def test_a_store_and_what_dvc_makes_of_it(
    types: str, working: str, purposes: dict[Purpose, int], tmp_path: Path
) -> None:
    needs = store_needs(tmp_path / "s.zarr", 10, commit(types, working))
    assert {need.purpose: need.bytes for need in needs} == purposes


def test_outside_of_dvc_a_store_is_written_once(tmp_path: Path) -> None:
    assert store_needs(tmp_path / "s", 10, None) == (Need(tmp_path / "s", Purpose.STORE, 10),)


@pytest.mark.root
def test_work_on_another_disk_is_needed_there_as_well(disk: Disk, tmp_path: Path) -> None:
    small = disk("tmpfs", 4)
    needs = store_needs(tmp_path / "s.zarr", MIB, None, small / "s.zarr.work")
    found = demands(needs, margin=0.5, reserve=2**40)
    assert [(demand.filesystem.mount == small, demand.bytes) for demand in found] == [
        (True, MIB),
        (False, MIB),
    ]
    on_small = found[0]
    assert (on_small.margin, on_small.reserve) == (MIB // 2, 4 * MIB // 20)
    assert on_small.fits
    assert "(tmpfs) needs 1.78 MB (work folder 1.05 MB, margin 524 kB, reserve 210 kB), 4.19 MB are free" in str(
        on_small
    )


def test_what_a_stopped_conversion_has_left_is_not_needed_again(tmp_path: Path) -> None:
    (tmp_path / "s.zarr.work" / "store").mkdir(parents=True)
    (tmp_path / "s.zarr.work" / "store" / "c.0").write_bytes(bytes(700))
    assert [need.bytes for need in store_needs(tmp_path / "s.zarr", 1000, None)] == [300]
    assert [need.bytes for need in store_needs(tmp_path / "s.zarr", 1000, None, replaced=500)] == [0]
    (tmp_path / "s.zarr.work" / "arriving").mkdir()
    (tmp_path / "s.zarr.work" / "arriving" / "c.0").write_bytes(bytes(200))  # reused or removed at the start
    assert [need.bytes for need in store_needs(tmp_path / "s.zarr", 1000, None)] == [100]
    needs = store_needs(tmp_path / "s.zarr", 1000, None, tmp_path / "scratch" / "s.zarr.12345678.work")
    assert [need.bytes for need in needs] == [100]  # what is next to the target is removed


def test_experiments_side_by_side_check_out_everything_where_dvc_copies() -> None:
    linked = experiment_needs(10, commit("hardlink,symlink", "hardlink,symlink,copy"), 100, 3)
    copied = experiment_needs(10, commit("reflink,copy", "hardlink,copy"), 100, 3)
    assert sum(need.bytes for need in linked) == 30
    assert sum(need.bytes for need in copied) == 3 * (10 + 10 + 100)


def test_training_needs_room_for_the_checkpoint_being_written(tmp_path: Path) -> None:
    model, logs = tmp_path / "chess", tmp_path / "plots"
    needs = training_needs(model, logs, 100, 200, commit("reflink,copy", "copy"))
    assert [(need.purpose, need.bytes) for need in needs] == [
        (Purpose.CHECKPOINTS, 600),
        (Purpose.MODEL, 100),
        (Purpose.LOGS, LOG_BYTES),
        (Purpose.MODEL_COPY, 100),
    ]
    assert sum(need.bytes for need in training_needs(model, logs, 100, 200, None)) == 700 + LOG_BYTES


def test_the_checkpoint_of_a_stopped_run_is_not_needed_again(tmp_path: Path) -> None:
    model = tmp_path / "chess"
    (tmp_path / "chess.partial").mkdir()
    (tmp_path / "chess.partial" / "checkpoint.pt").write_bytes(bytes(300))
    assert training_needs(model, tmp_path / "plots", 100, 200, None)[0].bytes == 300
