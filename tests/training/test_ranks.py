"""Several ranks train as one does: the same batches, the same curve to rounding, also from one number to another."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from outofcore.training.checkpoint import Checkpoint
from tests.training.chess_run import write_store
from tests.training.ranks_run import train_ranks

pytestmark = pytest.mark.xdist_group("ranks")  # which share what one process did
CHECKOUT = Path(__file__).resolve().parents[2]
STEPS = 20
KILLED_IN = 13  # of the second epoch; the checkpoint before it counts


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("stores") / "chess.zarr")


def torchrun(ranks: int, store: Path, out: Path, killed_in: int, number: str) -> subprocess.CompletedProcess[str]:
    command = ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m", "tests.training.ranks_run"]
    return run(*command, str(store), str(out), str(killed_in), number)


@dataclass(frozen=True)
class Runs:
    """What a process left and said that ran ranks one after the other, without starting Python for each rank."""

    out: Path
    ended: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def done(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Two ranks that do not share a folder; two that die, and three that go on."""
    out = tmp_path_factory.mktemp("ranks")
    return Runs(out, run("tests.training.ranks_forked", str(store), str(out), "apart", f"2:{KILLED_IN}", "3:-1"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=CHECKOUT, env=environment, check=False, capture_output=True, text=True
    )


def test_ranks_that_do_not_share_the_folder_of_checkpoints_stop(done: Runs) -> None:
    said = [(done.out / f"apart.{rank}").read_text() for rank in range(2)]
    expected = "rank 0 resumes at step 7, rank 1 at step 0; expected a folder that all ranks share"
    assert [expected in line for line in said] == [True, True]


def batches(out: Path, ranks: int) -> list[set[str]]:
    """The samples of each global batch that a number of ranks trained on."""
    noted = [(out / f"samples.{ranks}.{rank}").read_text().splitlines() for rank in range(ranks)]
    steps = []
    for lines in zip(*noted, strict=True):
        shares = [json.loads(line) for line in lines]
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        steps.append({sample for share in shares for sample in share})
        assert len(steps[-1]) == sum(map(len, shares))
    return steps


def curve(out: Path) -> list[float]:
    with (out / "plots/chess/train/loss.tsv").open(newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file, delimiter="\t")]


def test_two_ranks_that_die_go_on_as_three_and_end_as_one(store: Path, tmp_path: Path, done: Runs) -> None:
    alone, several, ended = tmp_path / "alone", done.out, done.ended
    figures = train_ranks(store, alone)
    assert figures["steps"] == STEPS

    assert ended.returncode == 0, ended.stderr
    assert "SIGKILL" in ended.stderr
    assert "find_unused_parameters" not in ended.stderr  # of torch, on each rank
    assert ended.stdout.splitlines() == [
        "2 ranks apart ended",
        "2 ranks failed without figures",
        "3 ranks ended with figures",
    ]

    expected = batches(alone, 1)
    assert batches(several, 2)[: KILLED_IN - 1] == expected[: KILLED_IN - 1]
    assert batches(several, 3) == expected[KILLED_IN - 1 :]
    assert curve(several) == pytest.approx(curve(alone), rel=1e-4)
    found = json.loads((several / "metrics/chess/train.json").read_text())
    assert found.pop("model") != figures.pop("model")  # rounded otherwise
    assert found == pytest.approx(figures, rel=2e-2)
    machine = json.loads((several / "metrics/chess/train_run.json").read_text())
    assert (machine["ranks"], machine["resumed_from_step"]) == (3, KILLED_IN - 1)


@pytest.mark.long
def test_two_ranks_stop_after_the_same_step_if_one_is_asked_to(store: Path, tmp_path: Path) -> None:
    stopped = torchrun(2, store, tmp_path, 3, "SIGTERM")
    assert stopped.returncode != 0
    assert "stopping after this step" in stopped.stderr
    assert len(batches(tmp_path, 2)) == 3
    saved = Checkpoint.load(tmp_path / "models/chess.partial/checkpoint.pt")
    assert saved is not None
    assert saved.progress.step == 3
