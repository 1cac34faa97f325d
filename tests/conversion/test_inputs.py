"""A raw file that changes during its conversion is noticed before the seal."""

from __future__ import annotations

import errno
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outofcore.conversion import inputs
from outofcore.errors import RawInputError
from outofcore.raw.files import RawFile, find_files
from outofcore.raw.unit import Unit
from tests.conversion.lines import Lines, after_unit, convert, stop

SHIPPED_TICK_NS = inputs.TICK_NS


@pytest.fixture(autouse=True)
def none_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file counts as just written, although all are."""
    monkeypatch.setattr(inputs, "TICK_NS", 0)


def longer(path: Path) -> None:
    with path.open("a") as stream:
        stream.write("1 2 3\n")


def rewritten(path: Path) -> None:
    """Other bytes of the same number, in place."""
    before = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(before + 1000, before + 1000))


def replaced(path: Path, content: bytes | None = None) -> None:
    """Another file of the same size and modification time, as rsync leaves it; by default of other bytes."""
    facts = path.stat()
    new = path.with_name("new")
    new.write_bytes(path.read_bytes()[::-1] if content is None else content)
    os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    new.replace(path)


def rewritten_in_secret(path: Path) -> None:
    """Other bytes in place, by a program that sets the modification time back."""
    facts = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    while path.stat().st_ctime_ns == facts.st_ctime_ns:  # until the clock of the filesystem has ticked
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def copied(path: Path) -> None:
    """The same bytes and modification time in another file, as when DVC links anew."""
    replaced(path, path.read_bytes())


def linked(path: Path) -> None:
    """A second name, which changes the change time alone, as when DVC moves a file into its cache."""
    path.with_name("second name").hardlink_to(path)


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (longer, "size and modification time differ from the beginning"),
        (rewritten, "modification time differ from the beginning"),
        (rewritten_in_secret, "its bytes differ from the beginning"),
        (replaced, "its bytes differ from the beginning"),
        (Path.unlink, "it is gone"),
    ],
)
def test_a_file_that_changes_meanwhile_seals_nothing(
    raw: Path, tmp_path: Path, change: Callable[[Path], None], how: str
) -> None:
    watch = after_unit(0, lambda: change(raw / "a.txt"))
    expected = rf"a\.txt has changed during the conversion \({how}.*nothing was sealed"
    with pytest.raises(RawInputError, match=expected):
        convert(raw, tmp_path, watch=watch)
    assert not (tmp_path / "lines.zarr").exists()
    if (raw / "a.txt").exists():
        again = convert(raw, tmp_path)
        assert again.resumed_units == 0
        assert (tmp_path / "lines.zarr").is_dir()


def test_a_file_that_changes_before_the_first_unit_is_noticed(raw: Path) -> None:
    found = r"b\.txt has changed during the conversion \([\d,]+ bytes when it was listed, [\d,]+ now\)"
    files = find_files(raw, "**/*", (".txt",), section="lines")
    longer(raw / "b.txt")
    with pytest.raises(RawInputError, match=found) as error:
        inputs.Inputs(files, threads=1)
    assert re.fullmatch(r"[^\n]+", str(error.value))


@pytest.mark.parametrize("change", [copied, linked])
def test_a_file_of_another_inode_or_change_time_with_the_same_bytes_is_no_change(
    raw: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    expected = convert(raw, tmp_path / "expected").seal.digest
    watch = after_unit(0, lambda: change(raw / "a.txt"))
    assert convert(raw, tmp_path, watch=watch).seal.digest == expected


def test_a_file_whose_inode_alone_differs_is_not_read_again(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network filesystems number their files anew at each look."""
    stat, digest, read, numbers = Path.stat, RawFile.digest, [], itertools.count(1)

    def renumbered(path: Path, **options: bool) -> os.stat_result:
        facts = stat(path, **options)
        if path.parent != raw:
            return facts
        times = {name: getattr(facts, name) for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}
        return os.stat_result([facts.st_mode, next(numbers), *facts[2:]], times)

    def counted(file: RawFile, *arguments: Any) -> str:
        read.append(file.name)
        return digest(file, *arguments)

    monkeypatch.setattr(Path, "stat", renumbered)
    monkeypatch.setattr(RawFile, "digest", counted)
    convert(raw, tmp_path, checkpoint_seconds=0.0)
    assert sorted(read) == ["a.txt", "b.txt"]


def test_ctrl_c_does_not_wait_until_files_are_digested(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them never ends."""
    digest, reading = RawFile.digest, threading.Event()

    def interrupted(file: RawFile, check: Callable[[], None]) -> str:
        if file.name == "first":
            reading.wait()
            raise KeyboardInterrupt
        reading.set()
        return digest(file, check)

    monkeypatch.setattr(RawFile, "digest", interrupted)
    files = [RawFile("first", os.devnull, 0), RawFile("endless", "/dev/zero", 0)]
    with pytest.raises(KeyboardInterrupt):
        inputs.Inputs([*files, *files[1:]], threads=2)


def test_a_change_within_a_tick_of_a_coarse_clock_is_noticed(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was just written may be written again without a trace in its times."""
    states: dict[RawFile, object] = {}

    def seen_soon_after(file: RawFile, real: Callable[[RawFile], Any] = inputs._state) -> object:
        state = real(file)
        return states.setdefault(file, state._replace(seen=max(state.modified, state.changed) + 19 * 10**8))

    monkeypatch.setattr(inputs, "_state", seen_soon_after)
    monkeypatch.setattr(inputs, "TICK_NS", SHIPPED_TICK_NS)
    with pytest.raises(RawInputError, match=r"a\.txt has changed .*its bytes differ from the beginning"):
        convert(raw, tmp_path, watch=after_unit(0, lambda: rewritten(raw / "a.txt")))


def test_what_a_stopped_run_has_read_is_compared_by_its_bytes(raw: Path, tmp_path: Path) -> None:
    """Neither a new modification time starts afresh, nor does an old one hide other bytes."""
    stop(raw, tmp_path, 10)
    os.utime(raw / "a.txt", ns=(0, 10**18))
    assert convert(raw, tmp_path).resumed_units == 10
    stop(raw, tmp_path, 10)
    rewritten_in_secret(raw / "a.txt")
    again = convert(raw, tmp_path)
    assert again.resumed_units == 0
    assert again.seal.digest == convert(raw, tmp_path / "fresh").seal.digest


@pytest.mark.parametrize("change", [rewritten, rewritten_in_secret, replaced])
def test_no_checkpoint_counts_what_was_read_from_other_bytes(
    raw: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """Although the file is as before when the next run resumes, as after ``dvc checkout``."""
    original = (raw / "a.txt").read_bytes()
    with pytest.raises(RawInputError):
        convert(raw, tmp_path, watch=after_unit(4, lambda: change(raw / "a.txt")), checkpoint_seconds=0.0)
    (raw / "a.txt").write_bytes(original)
    again = convert(raw, tmp_path)
    assert again.resumed_units == 4
    assert again.seal.digest == convert(raw, tmp_path / "fresh").seal.digest


class Paired(Lines):
    """Every unit also reads the last file, as a session that is a folder does."""

    def units(self, files: Sequence[RawFile], section: Any) -> Iterator[Unit]:
        for unit in super().units(files, section):
            yield replace(unit, others=(len(files) - 1,))


def test_no_checkpoint_counts_what_was_read_from_other_bytes_of_a_further_file(raw: Path, tmp_path: Path) -> None:
    last = max(raw.iterdir())
    original = last.read_bytes()
    with pytest.raises(RawInputError):
        convert(raw, tmp_path, Paired(), watch=after_unit(4, lambda: rewritten(last)), checkpoint_seconds=0.0)
    last.write_bytes(original)
    assert convert(raw, tmp_path, Paired()).resumed_units == 4


@pytest.mark.parametrize("call", ["stat", "digest"])
def test_a_file_that_cannot_be_read_is_one_line(raw: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    stat, digest = os.stat, RawFile.digest

    def refused(path: object, real: Callable[..., Any], **options: Any) -> Any:
        if str(path) == str(raw / "b.txt"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(**options)

    files = find_files(raw, "**/*", (".txt",), section="lines")
    if call == "stat":
        monkeypatch.setattr(os, "stat", lambda path, **options: refused(path, partial(stat, path), **options))
    else:
        monkeypatch.setattr(RawFile, "digest", lambda file, *_: refused(file.path, partial(digest, file)))

    with pytest.raises(
        RawInputError, match=r"^[^\n]+b\.txt cannot be read: Input/output error; make it readable, and "
    ):
        inputs.Inputs(files, threads=1)


def test_a_long_wait_for_digests_is_announced(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(raw, tmp_path)
    assert "digesting" not in capsys.readouterr().err
    monkeypatch.setattr("outofcore.conversion.run.NOTICE_BYTES", 1)
    convert(raw, tmp_path)
    assert re.search(r"convert lines: digesting \S+ (bytes|kB) of raw input first\n", capsys.readouterr().err)
