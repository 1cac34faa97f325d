"""Fixtures of the Go tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.domains.go.games import Converted, convert

ConvertText = Callable[..., Converted]


@pytest.fixture
def convert_text(tmp_path: Path) -> ConvertText:
    """Converts bytes as a file ``games.sgf``, or several by name; further arguments are settings."""

    def run(data: bytes | dict[str, bytes], *, block: int = 1 << 20, **settings: Any) -> Converted:
        files = data if isinstance(data, dict) else {"games.sgf": data}
        for name, content in files.items():
            path = tmp_path / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        settings.setdefault("filters", {}).setdefault("sizes", [9, 19])
        return convert(tmp_path / "raw", block, **settings)

    return run
