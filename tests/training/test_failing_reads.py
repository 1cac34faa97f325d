"""A read or an open that fails is no damage of a model or checkpoint: nobody trains again, or removes it, for that."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.system.failing_reads import built, printed

PROGRAM = """
import ctypes, errno, json, sys
import torch
from outofcore.errors import StateError
from outofcore.training.checkpoint import Checkpoint, Progress
from pathlib import Path

path = Path(sys.argv[1])
system = ctypes.CDLL(None)
system.arm.argtypes = ctypes.c_char_p, ctypes.c_long, ctypes.c_int
system.count.restype = ctypes.c_long
weights = {str(number): torch.arange(30_000.0) + number for number in range(3)}
Checkpoint("run", {"code": "1"}, weights, {"state": {}}, Progress()).save(path)

def outcome(failing):
    system.arm(str(path).encode(), failing, errno.EIO)
    try:
        loaded = Checkpoint.load(path)
    except (StateError, OSError) as error:
        named = getattr(error, "filename", None) == str(path)
        return f"{type(error).__name__} {getattr(error, 'errno', '')} {named}"
    finally:
        failed = system.count() >= failing
        system.arm(b"", 0, 0)
    same = all(torch.equal(loaded.model[name], weights[name]) for name in weights)
    return ("whole" if same else "other") + (" though a read failed" if failed and failing else "")

outcome(2**40)
whole = outcome(2**40)
system.arm(str(path).encode(), 2**40, errno.EIO)
Checkpoint.load(path)
count = system.count()
print(json.dumps([whole, count, [outcome(each) for each in range(1, count + 1)]]))
"""


def test_a_read_that_fails_is_no_damage(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    library = built(tmp_path_factory.mktemp("library"))
    whole, count, outcomes = printed(library, PROGRAM, tmp_path / "checkpoint.pt")
    assert whole == "whole"
    assert count > 4
    assert Counter(outcomes) == {"OSError 5 True": count}
