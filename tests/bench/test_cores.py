"""What a conversion with more workers would take."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import pytest

import cores
from harness.raw import write_sample
from tests.pipeline.conftest import ROOT

KNOWN = {"size": 100.0, "around": 1.0, "driver": 2.0, "convert": 12.0, "encode": 4.0, "gil": 3.0}


@pytest.mark.parametrize(
    ("workers", "on", "seconds", "limit"),
    [
        (1, 2, 12.0, "workers"),
        (2, 2, 9.0, "cores"),
        (4, 4, 4.5, "cores"),
        (16, 16, 3.0, "GIL"),
    ],
)
def test_the_longest_limit_decides(workers: int, on: int, seconds: float, limit: str) -> None:
    assert cores.predicted(KNOWN, workers, on) == (100 / (1 + seconds), limit)


def test_a_driver_waits_for_its_encoders() -> None:
    assert cores.predicted(KNOWN | {"encode": 16.0, "convert": 0.0}, 4, 64) == (100 / 7, "driver")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="who holds the GIL is known only in Python 3.11")
def test_the_gil_is_held_by_python_and_not_by_compiled_code() -> None:
    block = bytes(1 << 24)
    shares = []
    for work in (lambda: sum(range(2_000_000)), lambda: hashlib.sha256(block).digest()):
        with cores.gil_watched() as held:
            for _ in range(10):
                work()
            shares.append(held())
    assert shares[0] > 0.8
    assert shares[1] < 0.2


def test_a_conversion_is_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = str(write_sample("chess", tmp_path / "chess", 0))
    shutil.copyfile(ROOT / "params.yaml", tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    found = cores.converted("chess", sample, {}, 1)
    assert min(found.values()) >= 0
    assert found["convert"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"chess", "params.yaml"}
