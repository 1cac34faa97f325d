"""Programs of ``bench/`` import each other by name."""

from __future__ import annotations

import sys

from tests.pipeline.conftest import ROOT

sys.path.append(str(ROOT / "bench"))
