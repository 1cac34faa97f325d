"""A raw file that changes during its conversion is noticed before the seal."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion, Outcome, convert
from outofcore.errors import RawInputError
from outofcore.raw.files import find_files
from tests.conversion.lines import Lines, LinesSection, write_lines


def run(raw: Path, out: Path, watch: Callable[[int], None], before: Callable[[], None] = lambda: None) -> Outcome:
    domain, section = Lines(), LinesSection()
    files = find_files(raw, section.match, domain.suffixes, section="lines")
    before()
    conversion = Conversion(domain, section, files, out / "lines.zarr", out / "rejects.csv")
    return convert(conversion, Estimate(0, 0, 0, 0), executor=open_executor("threads", 1), workers=1, watch=watch)


def longer(path: Path) -> None:
    with path.open("a") as stream:
        stream.write("1 2 3\n")


def rewritten(path: Path) -> None:
    """Other bytes of the same number, in place."""
    before = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(before + 1000, before + 1000))


def replaced(path: Path) -> None:
    """Another file of the same size and time of change, as rsync leaves it."""
    facts = path.stat()
    new = path.with_name("new")
    new.write_bytes(path.read_bytes()[::-1])
    os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    new.replace(path)


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (longer, "size and time of change differ"),
        (rewritten, "time of change differ"),
        (replaced, "inode differ"),
        (Path.unlink, "it is gone"),
    ],
)
def test_a_file_that_changes_meanwhile_seals_nothing(tmp_path: Path, change: Callable[[Path], None], how: str) -> None:
    raw = tmp_path / "raw"
    write_lines(raw, np.random.default_rng(5))
    changed: list[Path] = []

    def watch(_: int) -> None:
        if not changed:
            changed.append(raw / "a.txt")
            change(raw / "a.txt")

    expected = rf"a\.txt has changed during the conversion \({how}.*nothing was sealed"
    with pytest.raises(RawInputError, match=expected):
        run(raw, tmp_path, watch)
    assert not (tmp_path / "lines.zarr").exists()
    if (raw / "a.txt").exists():
        again = run(raw, tmp_path, lambda _: None)
        assert again.resumed_units == 0
        assert (tmp_path / "lines.zarr").is_dir()


def test_a_file_that_changes_before_the_first_unit_is_noticed(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_lines(raw, np.random.default_rng(5))
    found = r"b\.txt has changed during the conversion \([\d,]+ bytes when it was listed, [\d,]+ now\)"
    with pytest.raises(RawInputError, match=found) as error:
        run(raw, tmp_path, lambda _: None, lambda: longer(raw / "b.txt"))
    assert re.fullmatch(r"[^\n]+", str(error.value))
