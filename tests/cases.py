"""Cases of a parametrized test that ``make test-all`` runs, and ``make test`` leaves out."""

from __future__ import annotations

from typing import Any

import pytest


def long_cases(*cases: Any) -> list[Any]:
    """Cases as of ``parametrize``, marked ``long``."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long) for case in cases]
