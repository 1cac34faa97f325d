"""Output and exit of commands: no control characters; an error is one line and exit code 2, Ctrl-C one line and 130.

Names and texts come from untrusted files, and a terminal executes control sequences in them.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from outofcore.errors import OutOfCoreError

EXIT_SYSTEM = 1
EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130


# All C0 and C1 controls except tab and newline; bidirectional formatting marks.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """A text with control characters escaped, safe to print on a terminal."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


@contextmanager
def one_line_errors(*, resumes: bool = True) -> Iterator[None]:
    """Run a command's body: an expected error becomes one line and an exit code, SIGTERM stops it like Ctrl-C.

    ``resumes`` is whether the command continues where it was stopped.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except OutOfCoreError as error:
        _tell(str(error))
        raise SystemExit(EXIT_MISTAKE) from None
    except BrokenPipeError:  # the reader of the output closed the pipe
        raise
    except OSError as error:
        where = error.filename if error.filename is not None else "a file that the system does not name"
        _tell(f"{where}: {error.strerror or error}; see what disk, permissions and limits allow")
        raise SystemExit(EXIT_SYSTEM) from None
    except KeyboardInterrupt:
        kept = "; finished work is kept, run the same command to resume" if resumes else ""
        sys.stderr.write(f"stopped{kept}\n")
        raise SystemExit(EXIT_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(message: str) -> None:
    sys.stderr.write(f"error: {visible(' '.join(message.split()))}\n")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
