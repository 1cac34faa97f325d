from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.chess_run import train_chess, write_store

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("stores") / "chess.zarr")


def left(out: Path) -> dict[str, bytes]:
    """All that a run leaves but what the machine decides."""
    files = [path for path in sorted(out.rglob("*")) if path.is_file() and path.name != "train_run.json"]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def test_a_process_killed_in_a_step_goes_on_from_the_store_to_the_same_bytes(store, tmp_path):
    step = 13  # of the second epoch
    figures = train_chess(store, tmp_path / "whole")
    assert figures["steps"] == 20
    assert figures["policy_loss"] < figures["policy_loss_frequencies"]
    killed = subprocess.run(
        [sys.executable, "-m", "tests.training.chess_run", str(store), str(tmp_path / "killed"), str(step)],
        cwd=CHECKOUT,
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL
    assert train_chess(store, tmp_path / "killed") == figures
    assert left(tmp_path / "killed") == left(tmp_path / "whole")
    machine = json.loads((tmp_path / "killed/metrics/chess/train_run.json").read_text())
    assert machine["resumed_from_step"] == step - 1
