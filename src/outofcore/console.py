"""How a command ends: a user's mistake is one line and exit code 2, Ctrl-C one line and 130, never a traceback."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from outofcore.errors import OutOfCoreError

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Run a command's body; SIGTERM stops it as Ctrl-C does.

    Raises
    ------
    SystemExit
        In place of :class:`OutOfCoreError` and ``KeyboardInterrupt``; any other error is a defect and passes.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except OutOfCoreError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(EXIT_MISTAKE) from None
    except KeyboardInterrupt:
        sys.stderr.write("stopped; what is whole is kept, the same command goes on from there\n")
        raise SystemExit(EXIT_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
