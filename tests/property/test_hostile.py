"""Files that went wrong in some way: refused or counted, never a crash, a standstill or a wrong count."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.property.hostile import KINDS, ROOT

FILES = int(os.environ.get("OUTOFCORE_TRIES", "40"))
# Other files each time would be found wrong in somebody else's change.
FIRST = 1_000_000


@pytest.mark.apart
@pytest.mark.timeout(1200 + FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_are_refused_or_counted(kind: str) -> None:
    command = [sys.executable, "-m", "tests.property.hostile", kind, str(FIRST), str(FILES)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]  # the seeds that it has begun
    found = json.loads(ended.stdout)
    assert found["wrong"] == []
    assert found["fed"] == FILES
    assert found["outcomes"].get("accepted", 0) > 0
