"""Raw files of the lines that these tests convert."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conversion.lines import write_lines


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_lines(tmp_path / "raw", np.random.default_rng(5))
    return tmp_path / "raw"
