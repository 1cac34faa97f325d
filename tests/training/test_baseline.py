"""What a training of nothing holds, where its process does not live to tell."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from outofcore.errors import OutOfCoreError, ParamsError
from outofcore.training.baseline import baseline_bytes


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
