"""The jobs of docs/distributed.md on a real SLURM: a controller and two nodes, all on this machine.

Debian has them: ``apt-get install slurm-wlm``. Run by ``pytest -m apart tests/pipeline/test_slurm.py`` as root, in this
order: the first job makes the stores that the others take.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from outofcore.domains.registry import get_domain
from outofcore.store.reader import open_store
from tests.pipeline.conftest import ROOT, Project

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
pytestmark = [
    pytest.mark.apart,
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start SLURM"),
    pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="needs slurm-wlm"),
]
PAGE = (ROOT / "docs/distributed.md").read_text(encoding="utf-8")
ENTRIES = ("2024", "2025")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldPidFile={folder}/slurmctld.pid
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=2 RealMemory=8000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[str]:
    """A cluster of two nodes; the file of its configuration."""
    folder = Path("/tmp") / f"slurm-{secrets.token_hex(4)}"  # the path of a socket is short
    folder.mkdir(mode=0o711)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o400)
    file = folder / "slurm.conf"
    file.write_text(CONFIGURATION.format(host=socket.gethostname().split(".")[0], folder=folder))
    names = {name: folder / f"munge.{name}" for name in ("key", "socket", "pid", "log", "seed")}
    munge = [f"--{name}{'' if name == 'socket' else '-file'}={path}" for name, path in names.items()]
    environment = {**os.environ, "SLURM_CONF": str(file)}
    try:
        for command in (["munged", "--force", *munge], ["slurmctld"], ["slurmd", "-N", "n1"], ["slurmd", "-N", "n2"]):
            subprocess.run(command, env=environment, check=True, capture_output=True)
        yield str(file)
    finally:
        for pid in folder.glob("*.pid"):
            os.kill(int(pid.read_text()), 15)
        time.sleep(2)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with two entries of raw games, checked."""
    made = Project(tmp_path_factory.mktemp("slurm") / "project")
    made.folder.mkdir()
    made.git("init", "--quiet")
    made.run("outofcore", "init", ".", "--domains", "chess")
    for seed, entry in enumerate(ENTRIES):
        (made.folder / "data/raw" / entry).mkdir(parents=True)
        get_domain("chess").sample(made.folder / "data/raw" / entry, np.random.default_rng(seed))
    entries = ", ".join(f'"{entry}": data/raw/{entry}' for entry in ENTRIES)
    params = made.folder / "params.yaml"
    text = re.sub(r"\n  raw: .*", f"\n  raw: {{{entries}}}", params.read_text())
    params.write_text(text.replace("max_steps: -1", "max_steps: 4"))
    made.run("outofcore", "init", ".")
    made.dvc("repro", "check@chess")
    return made


def job(begin: str, **changes: str) -> str:
    """The script of the page after these words, made smaller."""
    script = dedent(re.search(r"\n\n((?: {4}.*\n)+)", PAGE[PAGE.index(begin) :])[1])  # type: ignore[index]
    for old, new in changes.items():
        assert old in script, old
        script = script.replace(old, new)
    return script


def wait_for(slurm: str, project: Project, script: str) -> str:
    """Run a shell script that starts jobs, and wait for these; what they printed."""
    before = set(project.folder.glob("slurm-*.out"))
    project.run("bash", "-c", script, SLURM_CONF=slurm, GLOO_SOCKET_IFNAME="lo")
    while project.run("squeue", "--noheader", SLURM_CONF=slurm).strip():
        time.sleep(0.5)
    return "".join(path.read_text() for path in sorted(set(project.folder.glob("slurm-*.out")) - before))


def test_a_dask_cluster_of_the_jobs_nodes_gives_the_same_bytes(slurm: str, project: Project) -> None:
    pytest.importorskip("distributed")
    digests = [open_store(project.folder / f"data/stores/chess/{entry}.zarr").digest for entry in ENTRIES]
    script = job(
        "As a SLURM job of four nodes",
        **{
            "--nodes=4": "--nodes=2",
            "--cpus-per-task=32 --mem=64G": "--cpus-per-task=1",
            "cd /shared/project": f"cd {project.folder}",
            "ib0": "lo",
            "--nworkers 30": "--nworkers 1",
            '--local-directory "$TMPDIR"': "--no-dashboard",
            "dvc repro convert@text": "dvc repro -f -s convert-chess@2024 && dvc repro -f -s convert-chess@2025",
        },
    )
    (project.folder / "job.sh").write_text(script)
    told = wait_for(slurm, project, "sbatch job.sh")
    assert told.count("games accepted") == len(ENTRIES), told
    assert [open_store(project.folder / f"data/stores/chess/{entry}.zarr").digest for entry in ENTRIES] == digests


def test_ranks_on_two_nodes_train_together(slurm: str, project: Project) -> None:
    script = job(
        "As a SLURM job:",
        **{
            " --gpus-per-node=8 --cpus-per-task=64": "",
            "cd /shared/project": f"cd {project.folder}",
            "OUTOFCORE_WORKERS=64 OUTOFCORE_MEMORY=256GiB": "OMP_NUM_THREADS=1",
            "--nproc-per-node 8": "--nproc-per-node 1",
            "$head:29500": "127.0.0.1:29500",  # the names of these nodes lead nowhere
        },
    )
    (project.folder / "train.sh").write_text(script)
    told = wait_for(slurm, project, "sbatch train.sh")
    figures = json.loads(project.read("metrics/chess/train_run.json"))
    assert figures["ranks"] == 2, told
    assert (project.folder / "models/chess/model.pt").exists()
