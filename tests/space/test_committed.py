from __future__ import annotations

from pathlib import Path

import pytest

from outofcore.errors import OutOfCoreError
from outofcore.space.committed import committed

WHOLE = "schema: '2.0'\nstages:\n  sample@chess:\n    cmd: python stages/sample.py chess\n"


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        (
            f"{WHOLE}<<<<<<< HEAD\n    outs: []\n=======\n    deps: []\n>>>>>>> strong\n",
            "holds the conflict of a merge",
        ),
        (WHOLE[:-5], "is cut short"),
    ],
)
def test_a_lock_file_that_is_not_whole_is_named(tmp_path: Path, lock: str, expected: str) -> None:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "dvc.lock").write_text(lock)
    with pytest.raises(OutOfCoreError, match=rf"dvc\.lock {expected}") as raised:
        committed(tmp_path)
    assert "'dvc repro'" in str(raised.value)
