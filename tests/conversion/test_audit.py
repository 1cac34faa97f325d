"""Comparisons run beside the conversion, and none is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from outofcore.conversion.audit import HELD, Auditors
from outofcore.errors import AuditError, ClusterError


def compare(number: int, unlucky: int) -> str | None:
    return f"record {number} is 12, by the oracle 13" if number == unlucky else None


@pytest.mark.parametrize("unlucky", [0, HELD - 1, HELD, 3 * HELD - 1])
def test_a_difference_is_told_wherever_it_is(unlucky: int) -> None:
    audits = tuple(partial(compare, number, unlucky) for number in range(3 * HELD))
    with Auditors() as auditors, pytest.raises(AuditError, match=f"nothing was sealed: record {unlucky} is 12"):  # noqa: PT012
        for audit in audits:
            auditors.add((audit,))
        auditors.finish()


def test_a_comparison_that_was_waited_for_when_ctrl_c_came_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with Auditors() as auditors:
        for number in range(HELD + 1):
            auditors.add((partial(compare, number, HELD),))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patch.setattr(Connection, "poll", interrupted)
            auditors.finish()
        assert not auditors.settled()


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_agreement_is_silent() -> None:
    with Auditors() as auditors:
        auditors.add(tuple(partial(compare, number, -1) for number in range(2 * HELD)))
        auditors.finish()


def broken(number: int) -> str | None:
    if number % (2 * HELD) == 0:
        message = "the oracle does not know this"
        raise LookupError(message)
    return None


@pytest.mark.parametrize("first", [0, 1])
def test_what_the_oracle_raises_is_a_difference(first: int) -> None:
    said = "nothing was sealed: the oracle raised LookupError: the oracle does not know this"
    with Auditors() as auditors, pytest.raises(AuditError, match=said):  # noqa: PT012
        auditors.add(tuple(partial(broken, number) for number in range(first, 3 * HELD)))
        auditors.finish()


def differs(number: int, record: bytes, answer: str) -> str | None:
    return answer if record and number == HELD + 5 else None


@pytest.mark.parametrize("length", [20, 10**6])
def test_a_difference_is_told_while_many_long_records_wait(length: int) -> None:
    """Both directions of the pipe are full, or the other side has ended already."""
    record = bytes(200_000)
    with Auditors() as auditors, pytest.raises(AuditError, match="nothing was sealed: xxxxx"):  # noqa: PT012
        auditors.add(tuple(partial(differs, number, record, "x" * length) for number in range(HELD + 100)))
        auditors.finish()


def ended(number: int) -> str | None:
    if number == 2 * HELD:
        os.kill(os.getpid(), signal.SIGKILL)
    return None


def test_a_process_that_is_killed_ends_the_conversion() -> None:
    with Auditors() as auditors:
        with pytest.raises(ClusterError, match="a worker process has ended"):  # noqa: PT012
            auditors.add(tuple(partial(ended, number) for number in range(3 * HELD)))
            auditors.finish()
        assert not auditors.settled()


SCRIPT = """
import sys
from pathlib import Path
import outofcore

game = '[White "{}"]\\n\\n1. e4 e5 2. {} 1-0\\n\\n'
text = "".join(game.format(number, move) for number, move in enumerate(["Nf3", "Nc3", "d4"] * 40))
Path(sys.argv[1], "games.pgn").write_text(text)
figures = outofcore.convert("chess", Path(sys.argv[1], "games.pgn"), Path(sys.argv[1], "chess.zarr"))
print(figures["accepted"], figures["audited"])
"""


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "mine.py").write_text(SCRIPT)
    (tmp_path / "random.py").write_text("raise SystemExit('the wrong random')")  # in the way of the standard library
    run = subprocess.run(
        [sys.executable, scripts / "mine.py", tmp_path], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "120 120\n"), run.stderr


@pytest.mark.parametrize("oracle", ["chess.oracle", "go.play.oracle"])
def test_the_process_starts_without_the_compiler(oracle: str) -> None:
    modules = f"outofcore.conversion.audit_process, outofcore.domains.{oracle}"
    code = f"import sys, {modules}; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
