"""Faults in the middle of a conversion: dead workers, doubts of an oracle, folders on two filesystems."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from outofcore.errors import AuditError
from outofcore.raw.unit import AuditRate, Unit, UnitResult
from outofcore.store.verify import verify
from tests.conversion.lines import Lines, convert


@dataclass(frozen=True)
class Doubted:
    """Has every unit audited; of one, the oracle thinks otherwise."""

    inner: Callable[[Unit], UnitResult]

    def __call__(self, unit: Unit) -> UnitResult:
        return replace(self.inner(unit), differences=("black or white",) if 1000 < unit.offset < 1400 else ())


@dataclass(frozen=True)
class Wrapped(Lines):
    """Lines with another converter around its own."""

    around: Callable[[Callable[[Unit], UnitResult]], Callable[[Unit], UnitResult]] | None = None

    def converter(self, section: Any, rate: AuditRate) -> Callable[[Unit], UnitResult]:
        inner = super().converter(section, rate)
        return inner if self.around is None else self.around(inner)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another filesystem."""
    if not Path("/dev/shm").is_dir() or Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second filesystem at /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_what_an_oracle_doubts_is_doubted_again(raw: Path, tmp_path: Path) -> None:
    doubted = Wrapped(around=Doubted)
    for _ in range(2):
        with pytest.raises(AuditError, match=r"sealed\. Differences: 1; the first: black or white"):
            convert(raw, tmp_path / "out", doubted)
        assert not (tmp_path / "out" / "lines.zarr").exists()


def test_work_in_progress_on_another_filesystem(raw: Path, tmp_path: Path, elsewhere: Path) -> None:
    expected = convert(raw, tmp_path / "whole")
    for _ in range(2):  # also over a store that is there
        found = convert(raw, tmp_path / "out", scratch=elsewhere, checkpoint_seconds=0)
        assert found.seal.digest == expected.seal.digest
        assert verify(tmp_path / "out" / "lines.zarr").problems == ()
        assert list(elsewhere.iterdir()) == []
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["lines.zarr", "rejects.csv"]
    left = (tmp_path / "out/rejects.csv").read_bytes()
    assert left == (tmp_path / "whole/rejects.csv").read_bytes()
