"""What the scripts of the pipeline load before they work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("stage", ["convert", "sample", "tokenizer"])
def test_only_training_waits_for_torch(stage: str) -> None:
    code = f"import runpy, sys; runpy.run_path({str(ROOT / 'stages' / f'{stage}.py')!r}); print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
