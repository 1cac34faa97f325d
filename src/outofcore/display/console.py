"""Output and exit of commands: no control characters; an error is one line and exit code 2, Ctrl-C one line and 130.

Commands and stages import this module first and the others within ``stopped_at_once``: imports take seconds.

Names and texts come from untrusted files, and a terminal executes control sequences in them.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from outofcore.errors import OutOfCoreError

EXIT_SYSTEM = 1
EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130

interrupted = threading.Event()
"""Set when Ctrl-C ends a command: it waits for its other threads, whose long work stops where it looks at this."""

# All C0 and C1 controls except tab and newline; bidirectional formatting marks.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """A text with control characters escaped, safe to print on a terminal."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


@contextmanager
def stopped_at_once() -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end the process in one line, without an exception, which imports may lose or replace.

    Nothing may be under way that would have to be finished or removed.
    """
    with stopped_by(_end):
        yield


@contextmanager
def large_imports() -> Iterator[None]:
    """Import packages such as torch: what they make stays, and is not searched for garbage again and again.

    The searches take a sixth of the start of a training.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        with stopped_at_once():
            yield
    finally:
        gc.freeze()
        if before:
            gc.enable()


@contextmanager
def one_line_errors(*, resumes: bool = True, hint: Callable[[], str] = str) -> Iterator[None]:
    """Run a command's body: an expected error becomes one line and an exit code, SIGTERM stops it like Ctrl-C.

    ``resumes`` is whether the command continues where it was stopped; ``hint`` gives what to add to the line.
    """
    try:
        with stopped_by(interrupt):
            yield
            sys.stdout.flush()
    except OutOfCoreError as error:
        _tell(f"{error}{hint()}")
        raise SystemExit(EXIT_MISTAKE) from None
    except OSError as error:
        end_by_system(error, hint())
    except KeyboardInterrupt:
        kept = "; finished work is kept, run the same command to resume" if resumes else ""
        sys.stderr.write(f"stopped{kept}{hint()}\n")
        raise SystemExit(EXIT_INTERRUPTED) from None


def end_by_system(error: OSError, hint: str = "") -> NoReturn:
    """End a command by what the system refused, in one line; by none if the reader of its output closed the pipe."""
    try:
        sys.stdout.flush()
    except OSError:  # the interpreter would try again when it ends, and print lines of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        where = error.filename if error.filename is not None else "the output, or a file that the system does not name"
        _tell(f"{where}: {error.strerror or error}; see what disk, permissions and limits allow{hint}")
    raise SystemExit(EXIT_SYSTEM) from None


@contextmanager
def stopped_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM call the handler, in the main thread, where signals arrive."""
    # A shell has its background jobs ignore Ctrl-C.
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
        interrupted.clear()


def _tell(message: str) -> None:
    sys.stderr.write(f"error: {visible(' '.join(message.split()))}\n")


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """End the work at once, that of other threads too."""
    interrupted.set()
    raise KeyboardInterrupt


def _end(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"stopped\n")
    os._exit(EXIT_INTERRUPTED)
