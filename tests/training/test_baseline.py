"""What a training of nothing holds: its process is begun once, is told of where it fails, and does not outlive us."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from outofcore.errors import OutOfCoreError, ParamsError
from outofcore.training.baseline import baseline_bytes, begin_baseline


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    baseline_bytes.cache_clear()
    yield
    baseline_bytes.cache_clear()


@pytest.mark.parametrize(
    ("code", "error", "kind", "expected"),
    [
        (-9, "", OutOfCoreError, "was ended by SIGKILL; is memory short"),
        (-11, "Fatal Python error: Segmentation fault\n", OutOfCoreError, "was ended by SIGSEGV"),
        (1, "", OutOfCoreError, "failed"),
        (1, "Traceback\nMemoryError: no room\n", OutOfCoreError, "failed: MemoryError: no room"),
        (1, "Traceback\noutofcore.errors.ParamsError: optimizer: no\n", ParamsError, "^optimizer: no$"),
    ],
)
def test_a_process_that_fails_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, code: int, error: str, kind: type[Exception], expected: str
) -> None:
    class Ended:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.returncode = code

        def communicate(self) -> tuple[str, str]:
            return "", error

    monkeypatch.setattr(subprocess, "Popen", Ended)
    with pytest.raises(kind, match=expected) as raised:
        baseline_bytes("adamw")
    assert "\n" not in str(raised.value)


def test_what_was_begun_is_waited_for_and_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []

    class Ended:
        returncode = 0

        def __init__(self, command: list[str], **_: Any) -> None:
            begun.append(command)

        def communicate(self) -> tuple[str, str]:
            return "123\n", ""

    monkeypatch.setattr(subprocess, "Popen", Ended)
    begin_baseline("sgd")
    begin_baseline("sgd")
    begin_baseline("sgd", 2)
    assert [baseline_bytes("sgd"), baseline_bytes("sgd"), baseline_bytes("sgd", 2)] == [123] * 3
    assert [command[-2:] for command in begun] == [["sgd", "1"], ["sgd", "2"]]


def test_what_nobody_waits_for_ends_with_the_process_that_began_it() -> None:
    begin = "from outofcore.training import baseline; baseline.begin_baseline('adamw')"
    tell = "print(baseline._BEGUN['adamw', 1].pid)"
    done = subprocess.run([sys.executable, "-c", f"{begin}; {tell}"], capture_output=True, text=True, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_one_process_trains_without_the_compiler_of_torch() -> None:
    train = "import sys; from outofcore.training.nothing import main; main('adamw', 1)"
    tell = "print({'sympy', 'torch._dynamo'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", f"{train}; {tell}"], capture_output=True, text=True, check=True)
    resident, imported = done.stdout.splitlines()
    assert int(resident) > 100e6
    assert imported == "set()"
