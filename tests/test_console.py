"""A command ends in one line, whatever stopped it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from outofcore.console import one_line_errors
from outofcore.errors import StoreError

BODY = """
import os, signal
from outofcore.console import one_line_errors
with one_line_errors():
    os.kill(os.getpid(), signal.{signal})
    signal.pause()
"""


def test_a_users_mistake_is_one_line_and_two(capsys: pytest.CaptureFixture[str]) -> None:
    message = "there is no such store"
    with pytest.raises(SystemExit) as ended, one_line_errors():
        raise StoreError(message)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: there is no such store\n"


def test_a_defect_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), one_line_errors():
        _ = 1 // 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_in_one_line(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BODY.format(signal=name)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 130
    assert ended.stderr == "stopped; what is whole is kept, the same command goes on from there\n"
