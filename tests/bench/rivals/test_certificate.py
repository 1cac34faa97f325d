"""What a certificate of resume says of a loader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rivals import certificate, stopped


@pytest.mark.parametrize(
    ("got", "expected", "ordered", "said"),
    [
        ([3, 1, 2], [3, 1, 2], True, "right"),
        ([1, 3, 2], [3, 1, 2], True, "another order"),
        ([1, 3, 2], [3, 1, 2], False, "right"),
        ([3, 1], [3, 1, 2], True, "1 lost"),
        ([3, 1, 2, 2, 3], [3, 1, 2], False, "2 again"),
        ([3, 3, 4], [3, 1, 2], True, "2 lost, 2 again"),
    ],
)
def test_how_what_came_differs(got: list[int], expected: list[int], ordered: bool, said: str) -> None:
    assert certificate.verdict(got, expected, ordered=ordered) == said


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> certificate.Subject:
    return certificate.Subject("outofcore", sys.executable, tmp_path_factory.mktemp("subject"))


@pytest.mark.long
def test_the_loader_resumes_in_another_process(subject: certificate.Subject) -> None:
    batches, out = subject.read(most=3, keep=True)
    rest, _ = subject.read(state=out / "state-2", batch=100)
    assert [number for number, _, _ in batches] == [0, 0, 0]
    assert batches[2][1] == certificate.records(rest)[:80]
    whole = certificate.records(batches[:2]) + certificate.records(rest)
    assert certificate.verdict(whole, list(range(1000)), ordered=False) == "right"
    assert subject.left() == 0


@pytest.mark.long
def test_a_mixture_has_the_share_that_was_asked_for(subject: certificate.Subject) -> None:
    for number, source in enumerate(subject.sources):
        subject.write(source, number * certificate.SOURCE, certificate.SOURCE, certificate.SOURCE_FILES)
    batches, out = subject.read(data=subject.sources, shares=(0.25, 0.75), most=64, workers=16)
    first = sum(number < certificate.SOURCE for number in certificate.records(batches))
    assert first == pytest.approx(0.25 * 64 * certificate.BATCH, abs=20)
    assert 10e6 < int((out / "held-0").read_text()) < 10e9


@pytest.mark.long
def test_a_process_is_killed_after_some_batches(subject: certificate.Subject) -> None:
    batches, _ = subject.read(killed_after=2)
    assert len(batches) == 2


def test_what_a_library_lacks_is_said() -> None:
    assert stopped.only(["a source"]) == "a source"
    with pytest.raises(SystemExit, match="not offered"):
        stopped.only(["a source", "another"])


@pytest.mark.long
def test_an_error_and_a_process_that_hangs_are_said(subject: certificate.Subject, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no state")
    with pytest.raises(certificate.SideError, match="UnpicklingError"):
        subject.read(state=tmp_path / "state")
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    with pytest.raises(certificate.SideError, match="hung"):
        subject._end(sleeping, 0.1)
    assert sleeping.returncode == -9
