"""A command ends in one line, whatever stopped it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outofcore.display.console import one_line_errors, stopped_at_once, visible
from outofcore.errors import StoreError

BODY = """
import os, signal
from outofcore.display.console import one_line_errors, visible
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
        [sys.executable, "-c", BODY.format(signal=name)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 130
    assert ended.stderr == "stopped; finished work is kept, run the same command to resume\n"


LOST = """
import os, signal
from outofcore.display.console import stopped_at_once
class Lost:
    def __del__(self):  # Python prints an exception that is raised here, and goes on
        os.kill(os.getpid(), signal.{signal})
with stopped_at_once():
    Lost()
    print("went on")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_where_an_exception_would_be_lost(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOST.format(signal=name)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")


def test_afterwards_signals_do_what_they_did_before() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(each) for each in numbers]
    for each in (stopped_at_once, one_line_errors):
        with each():
            assert all(signal.getsignal(number) not in before for number in numbers)
        assert [signal.getsignal(number) for number in numbers] == before


def test_a_job_in_the_background_goes_on_ignoring_ctrl_c() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopped_at_once(), one_line_errors():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


CONTROLS = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\r\x00"


def test_controls_are_spelt_out() -> None:
    told = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\r\x00"
    assert visible(CONTROLS) == told
    assert visible("Łódź 象棋 ♔\ta\nb") == "Łódź 象棋 ♔\ta\nb"
    assert visible("\udcff") == r"\udcff"


def test_an_error_is_one_line_without_controls(capsys: pytest.CaptureFixture[str]) -> None:
    message = f"no file {CONTROLS}\nsecond line"
    with pytest.raises(SystemExit), one_line_errors():
        raise StoreError(message)
    told = capsys.readouterr().err
    assert told.startswith(r"error: no file \x1b]0;owned\x07")
    assert told.count("\n") == 1
    assert visible(told) == told


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EFBIG, errno.EROFS])
def test_what_the_system_refuses_is_one_line_with_the_path(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, one_line_errors():
        raise OSError(number, os.strerror(number), "/data/games.pgn")
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(f"error: /data/games.pgn: {os.strerror(number)}; see what")


PRINTS = """
from outofcore.display.console import one_line_errors
with one_line_errors():
    print("a table")
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [("-c", PRINTS), ("-m", "outofcore", "--version")])
def test_output_that_is_refused_is_one_line(command: tuple[str, ...], unbuffered: str) -> None:
    told, code = ended(command, unbuffered, "/dev/full")
    assert told == (
        "error: the output, or a file that the system does not name: No space left on device; see what disk, "
        "permissions and limits allow\n"
    )
    assert code == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [("-c", PRINTS), ("-m", "outofcore", "--version")])
def test_a_reader_that_has_had_enough_is_no_error(command: tuple[str, ...], unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        assert ended(command, unbuffered, write) == ("", 1)
    finally:
        os.close(write)


def ended(command: tuple[str, ...], unbuffered: str, output: str | int) -> tuple[str, int]:
    """What a program writes to stderr, and its exit code, if its output goes there."""
    with open(output, "w", closefd=isinstance(output, str)) as stream:
        done = subprocess.run(
            [sys.executable, *command],
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    return done.stderr, done.returncode
