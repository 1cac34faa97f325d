"""Every step of writing may fail: one line names the path, no store is half there, and the next run succeeds."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import outofcore
from outofcore.errors import OutOfCoreError, SpaceError, StoreError
from outofcore.space.guard import Guard
from outofcore.store.reader import open_store
from outofcore.store.verify import verify
from tests.cases import long_cases
from tests.conversion.lines import Lines, convert, write_lines
from tests.store.faults import Faults, Step

CODES = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EFBIG, errno.EROFS)


def convert_lines(raw: Path, out: Path) -> str:
    with Guard("lines", 0, 0).writing(out):
        return convert(raw, out, Lines(unit_bytes=10**6), checkpoint_seconds=0.0).seal.digest


def write_arrays(raw: Path, out: Path) -> str:
    del raw
    number = np.arange(500)
    return outofcore.write_store(out / "a.zarr", {"number": number}, chunk_rows=64, shard_rows=256).digest


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    write_lines(folder, np.random.default_rng(5), lines=80)
    return folder


@pytest.mark.parametrize("write", [*long_cases(convert_lines), write_arrays])
def test_any_step_that_is_refused_is_one_line_and_leaves_no_half_store(
    raw: Path, tmp_path: Path, write: type[convert_lines]
) -> None:
    (tmp_path / "whole").mkdir()
    recorded = Faults(tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        recorded.install(patch)
        expected = write(raw, tmp_path / "whole")
    name = next(path.name for path in (tmp_path / "whole").glob("*.zarr"))
    assert_all_kinds(recorded.steps, name)
    for number, step in enumerate(each for each in recorded.steps if counts(each)):
        code = CODES[number % len(CODES)]
        out = tmp_path / str(number)
        out.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            Faults(out, step, code).install(patch)
            with pytest.raises(OutOfCoreError) as told:
                write(raw, out)
        line = str(told.value)
        assert "\n" not in line
        if code == errno.ENOSPC:
            assert isinstance(told.value, SpaceError), step
            assert "it is full" in line
        else:
            assert isinstance(told.value, StoreError), step
            assert line.startswith(f"{out}"), step
            assert f"cannot be written: {os.strerror(code)}; " in line
        if (out / name).exists():
            assert verify(out / name).problems == ()
        assert write(raw, out) == expected
        assert not list(out.glob("*.work*")), step


def counts(step: Step) -> bool:
    """Whether a step must not fail, and stands for others of other splits, tables and shards."""
    call, path = step
    others = any(name in path for name in ("/val", "/test", "/sequences", "/sources/", "c.1", "c.2"))
    return not others and call != "unlink" and step != ("mkdir", ".")  # at the end, and that folder is there already


def assert_all_kinds(steps: dict[Step, None], name: str) -> None:
    """The steps that are known to be there were seen."""
    ends = ("zarr.json", "seal.json", "c.0.partial")
    if name == "lines.zarr":
        ends += ("keys", "sources", "rejects.csv", "journal.partial")
    for end in ends:
        assert any(call == "open" and path.endswith(end) for call, path in steps), end
    for end in ends:
        assert any(call == "fsync" and path.endswith(end) for call, path in steps), end
    assert ("rename", f"{name}.work/arriving") in steps
    assert ("fsync", ".") in steps


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 100, 400, 700, 1000, 1500])
def test_a_limit_on_file_sizes_is_one_line(raw: Path, tmp_path: Path, size: int) -> None:
    expected = convert_lines(raw, tmp_path / "whole")
    with files_of_at_most(size), pytest.raises(StoreError, match=r"cannot be written: File too large; raise the limit"):
        convert_lines(raw, tmp_path / "out")
    assert not (tmp_path / "out" / "lines.zarr").exists()
    assert convert_lines(raw, tmp_path / "out") == expected
    assert open_store(tmp_path / "out" / "lines.zarr").digest == expected
