"""A grid of experiments, several at a time, on one machine: one cache, and a share of memory and disk for each."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.pipeline.conftest import Project, copy_project

pytestmark = [pytest.mark.apart, pytest.mark.timeout(3600)]

RATES = ("0.001", "0.01")
BATCHES = ("64", "128")


@pytest.fixture
def author(project: Project, tmp_path: Path) -> Project:
    """A project that has run, whose jobs write down what machine they were told they have."""
    here = copy_project(tmp_path / "author")
    shutil.copy(project.folder / "params.yaml", here.folder / "params.yaml")
    stage = here.folder / "stages/train.py"
    stage.write_text(
        stage.read_text().replace(
            "    torch.manual_seed(",
            '    with Path(__import__("os").environ["TOLD"]).open("a") as notes:\n'
            '        notes.write(json.dumps([machine.memory, machine.workers, machine.disk_margin]) + "\\n")\n'
            "    torch.manual_seed(",
            1,
        )
    )
    here.dvc("repro", "train@chess", TOLD=str(tmp_path / "alone"))
    here.git("add", "-A")
    here.git("commit", "-q", "-m", "ran")
    return here


def test_a_grid_shares_the_cache_and_each_job_is_told_its_share(author: Project, tmp_path: Path) -> None:
    told = {"TOLD": str(tmp_path / "told"), "OUTOFCORE_JOBS": "2"}
    grid = ["-S", f"chess.train.learning_rate={','.join(RATES)}", "-S", f"chess.train.batch_size={','.join(BATCHES)}"]
    author.dvc("exp", "run", "--queue", *grid, "train@chess")
    author.dvc("queue", "start", "--jobs", "2", **told)
    deadline = time.monotonic() + 3000
    while any(word in author.dvc("queue", "status") for word in ("Queued", "Running")):
        assert time.monotonic() < deadline, author.dvc("queue", "status")
        time.sleep(2)
    status = author.dvc("queue", "status")
    assert status.count("Success") == len(RATES) * len(BATCHES), status
    for name in [line.split()[0] for line in status.splitlines() if "Success" in line]:
        logs = author.dvc("queue", "logs", name)
        assert "'convert@chess' didn't change" in logs
        assert "Running stage 'train@chess'" in logs
    points = set()
    for revision in json.loads(author.dvc("exp", "show", "--json"))[1]["experiments"]:
        found = revision["revs"][0]["data"]
        train = found["params"]["params.yaml"]["data"]["chess"]["train"]
        points.add((str(train["learning_rate"]), str(train["batch_size"])))
        (figures,) = found["metrics"].values()
        assert len(figures["data"]) == 6
        assert 0 <= figures["data"]["top1"] <= 1
    assert points == {(rate, batch) for rate in RATES for batch in BATCHES}

    shares = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert len(shares) == 4
    alone = json.loads((tmp_path / "alone").read_text())
    assert all(memory < 0.75 * alone[0] for memory, _, _ in shares)
    assert [margin for _, _, margin in shares] == pytest.approx([1.4] * 4)
