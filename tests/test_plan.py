"""A plan looks at the input where the conversion will."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outofcore.errors import ClusterError
from outofcore.machine import load_machine
from outofcore.plan import plan_domain
from tests.conversion.lines import Lines, LinesSection


def test_the_sample_is_converted_by_the_cluster_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("1 2 3\n")
    monkeypatch.setenv("OUTOFCORE_ENGINE", "dask")
    monkeypatch.setenv("OUTOFCORE_DASK", "tcp://10.0.0.1:8786")
    asked: list[Any] = []

    def opened(engine: str, workers: int, *, address: str = "", files: Any = (), domain: str = "") -> Any:
        del workers
        asked.append((engine, address, [file.name for file in files], domain))
        raise ClusterError("enough")

    monkeypatch.setattr("outofcore.plan.open_executor", opened)
    section = LinesSection(raw=str(tmp_path))
    with pytest.raises(ClusterError):
        plan_domain(Lines(), section, load_machine(), None)
    assert asked == [("dask", "tcp://10.0.0.1:8786", ["a.txt"], "lines")]
