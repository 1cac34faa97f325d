"""Faults in the middle of a conversion: dead workers, doubts of an oracle, folders on two filesystems."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion, ConversionResult
from outofcore.errors import AuditError
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate, Unit, UnitResult
from outofcore.store.verify import verify
from tests.conversion.lines import Lines, LinesSection, write_lines


@dataclass(frozen=True)
class Doubted:
    """Has every unit audited; of one, the oracle thinks otherwise."""

    inner: Callable[[Unit], UnitResult]

    def __call__(self, unit: Unit) -> UnitResult:
        return replace(self.inner(unit), audits=(partial(opinion, 1000 < unit.offset < 1400),))


def opinion(differs: bool) -> str | None:
    return "black or white" if differs else None


@dataclass(frozen=True)
class Wrapped(Lines):
    """Lines with another converter around its own."""

    around: Callable[[Callable[[Unit], UnitResult]], Callable[[Unit], UnitResult]] | None = None

    def converter(self, section: Any, rate: AuditRate) -> Callable[[Unit], UnitResult]:
        inner = super().converter(section, rate)
        return inner if self.around is None else self.around(inner)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_lines(tmp_path / "raw", np.random.default_rng(5))
    return tmp_path / "raw"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another filesystem."""
    if not Path("/dev/shm").is_dir() or Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second filesystem at /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def run(raw: Path, out: Path, domain: Lines, scratch: Path | None = None) -> ConversionResult:
    files = find_files(raw, "**/*", domain.suffixes, section="lines")
    conversion = Conversion(domain, LinesSection(), files, out / "lines.zarr", out / "rejects" / "lines.csv")
    return conversion.run(
        Estimate(0, 0, 0, 0),
        executor=open_executor("threads", 2),
        workers=2,
        watch=lambda *_: None,
        scratch=scratch,
        checkpoint_seconds=0,
    )


def test_what_an_oracle_doubts_is_doubted_again(raw: Path, tmp_path: Path) -> None:
    doubted = Wrapped(around=Doubted)
    for _ in range(2):
        with pytest.raises(AuditError, match=r"sealed\. Differences: 1; the first: black or white"):
            run(raw, tmp_path / "out", doubted)
        assert not (tmp_path / "out" / "lines.zarr").exists()


def test_work_in_progress_on_another_filesystem(raw: Path, tmp_path: Path, elsewhere: Path) -> None:
    expected = run(raw, tmp_path / "whole", Lines())
    for _ in range(2):  # also over a store that stands
        found = run(raw, tmp_path / "out", Lines(), scratch=elsewhere)
        assert found.seal.digest == expected.seal.digest
        assert verify(tmp_path / "out" / "lines.zarr").problems == ()
        assert list(elsewhere.iterdir()) == []
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["lines.zarr", "rejects"]
    left = (tmp_path / "out/rejects/lines.csv").read_bytes()
    assert left == (tmp_path / "whole/rejects/lines.csv").read_bytes()
