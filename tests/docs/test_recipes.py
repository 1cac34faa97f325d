"""The programs of the page on frameworks, as it shows them: run, killed, resumed, on several ranks; and that on EEG.

Those of a framework that is not installed are skipped; ``make recipes`` installs all and runs these tests.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

import outofcore
from tests.docs.watched import digests
from tests.pipeline.conftest import ROOT

pytestmark = [pytest.mark.xdist_group("report"), pytest.mark.timeout(900), pytest.mark.apart]

PAGE = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
PROGRAMS = {
    section.partition("\n")[0]: re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for section in PAGE.split("\n## ")[1:]
}
RANKS, FSDP = "Plain torch on several ranks", "FSDP2"
RESUMED = {
    "Plain torch": "torch",
    "Lightning": "lightning",
    "accelerate": "accelerate",
    "Hugging Face Trainer": "transformers",
    "StatefulDataLoader": "torchdata",
}
"""Programs that save their position every ten batches, and what they need."""
EVERY = 10
MAP_STYLE = "Hugging Face Trainer over a dataset"
DISTRIBUTED = {RANKS: "torch", FSDP: "torch", "accelerate": "accelerate", "Hugging Face Trainer": "transformers"}
CHESS, TEXT = ("chess", 256), ("text", 16)
"""Store and size of batches."""

Batches = list[list[str]]


@dataclass(frozen=True)
class Run:
    """A program that has ended: its code, its output, and what its loaders gave, by process, split and epoch."""

    code: int
    output: str
    given: list[dict[tuple[str, int], Batches]]  # in order of ranks

    def epochs(self, split: str = "train") -> dict[int, Batches]:
        """Batches by epoch, of all processes, one after the other."""
        together: dict[int, Batches] = {}
        for batches in self.given:
            for (name, epoch), several in batches.items():
                if name == split:
                    together.setdefault(epoch, []).extend(several)
        return together


Start = Callable[..., Run]


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; 'make recipes' installs it")


@pytest.fixture
def start(project: Path, tmp_path: Path) -> Start:
    """Start a program of the page in a folder with the stores that the page makes."""
    for name in ("chess", "text"):
        (tmp_path / f"{name}.zarr").symlink_to(project / f"data/stores/{name}.zarr")

    def run(name: str, *launcher: str, number: int = 0, stop_after: int = -1) -> Run:
        (tmp_path / "train.py").write_text(PROGRAMS[name][number])
        notes = tmp_path / f"notes{len(list(tmp_path.glob('notes*')))}"
        notes.mkdir()
        command = [sys.executable, *launcher, ROOT / "tests/docs/watched.py", "train.py", notes, str(stop_after)]
        settings = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1"}
        settings |= {} if torch.cuda.is_available() else {"ACCELERATE_USE_CPU": "true"}
        ended = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, check=False
        )
        given = []
        for path in sorted(notes.glob("*.jsonl")):
            given.append(dict[tuple[str, int], Batches]())
            for split, epoch, samples in map(json.loads, path.read_text().splitlines()):
                given[-1].setdefault((split, epoch), []).append(samples)
        return Run(ended.returncode, ended.stdout + ended.stderr, given)

    return run


def expected(project: Path, name: str, epochs: int) -> list[Batches]:
    """What a loader with the settings of the page gives, by epoch."""
    store, size = TEXT if name == "Hugging Face Trainer" else CHESS
    batches = outofcore.loader(project / f"data/stores/{store}.zarr", "train", size)
    return [[digests(batch) for batch in batches] for _ in range(epochs)]


@pytest.mark.parametrize("name", RESUMED)
def test_a_killed_program_resumes_at_its_last_checkpoint(project: Path, start: Start, name: str) -> None:
    needs(RESUMED[name])
    epochs = expected(project, name, 1 if name == "StatefulDataLoader" else 2)
    whole = [batch for epoch in epochs for batch in epoch]
    stop_after = len(whole) * 3 // 4
    killed = start(name, stop_after=stop_after)
    assert killed.code == -signal.SIGKILL, killed.output
    assert [batch for epoch in killed.epochs().values() for batch in epoch] == whole[:stop_after]
    resumed = start(name)
    assert resumed.code == 0, resumed.output
    rest = [batch for epoch in resumed.epochs().values() for batch in epoch]
    assert rest == whole[-len(rest) :]
    assert 0 <= len(rest) - (len(whole) - stop_after) < 2 * EVERY


@pytest.mark.parametrize("name", [RANKS, FSDP])
def test_killed_ranks_resume_at_their_last_checkpoint(project: Path, start: Start, tmp_path: Path, name: str) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    stop_after = sum(map(len, expected(project, name, 2))) * 3 // 4
    killed = start(name, *launcher, stop_after=stop_after)
    assert "SIGKILL" in killed.output
    resumed = start(name, *launcher)
    assert resumed.code == 0, resumed.output
    (tmp_path / "checkpoint.pt").unlink(missing_ok=True)
    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    undisturbed = start(name, *launcher)
    check_each_once(project, name, 2, undisturbed)
    for before, after, uncut in zip(killed.given, resumed.given, undisturbed.given, strict=True):
        whole, first, rest = (of_training(given) for given in (uncut, before, after))
        assert first == whole[: len(first)]
        assert rest == whole[-len(rest) :]
        assert 0 <= len(rest) - (len(whole) - len(first)) < 2 * EVERY


@pytest.mark.parametrize("name", DISTRIBUTED)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_of_torchrun_read_each_sample_once(project: Path, start: Start, name: str, ranks: int) -> None:
    needs(DISTRIBUTED[name])
    ended = start(name, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")
    assert ended.code == 0, ended.output
    check_each_once(project, name, ranks, ended)
    if name == RANKS:
        assert ended.output.count("mean squared error") == 2
        val = outofcore.loader(project / "data/stores/chess.zarr", "val", 256, shuffle=False)
        once = sorted(sample for batch in val for sample in digests(batch))
        for several in ended.epochs("val").values():
            assert sorted(sample for batch in several for sample in batch) == once


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_of_accelerate_launch_read_each_sample_once(project: Path, start: Start, ranks: int) -> None:
    needs("accelerate")
    ended = start("accelerate", "-m", "accelerate.commands.launch", "--multi_gpu", f"--num_processes={ranks}")
    assert ended.code == 0, ended.output
    check_each_once(project, "accelerate", ranks, ended)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_of_lightning_read_each_sample_once(
    project: Path, start: Start, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("lightning")
    own = f"lightning.Trainer(accelerator='cpu', devices={ranks}, "
    monkeypatch.setitem(PROGRAMS, "Lightning", [PROGRAMS["Lightning"][0].replace("lightning.Trainer(", own)])
    ended = start("Lightning")
    assert ended.code == 0, ended.output
    check_each_once(project, "Lightning", ranks, ended)


def of_training(given: dict[tuple[str, int], Batches]) -> Batches:
    """Batches of a rank, epoch after epoch."""
    return [batch for epoch in range(2) for batch in given.get(("train", epoch), ())]


def check_each_once(project: Path, name: str, ranks: int, ended: Run) -> None:
    """Every rank has the same number of batches, and together they have the samples of each epoch, once."""
    epochs = expected(project, name, 2)
    assert len(ended.given) == ranks
    for own in ended.given:
        assert [len(own["train", epoch]) for epoch in range(2)] == [len(epoch) for epoch in epochs]
    for epoch, batches in enumerate(epochs):
        for step, whole in enumerate(batches):
            shares = [own["train", epoch][step] for own in ended.given]
            assert sorted(sample for share in shares for sample in share) == sorted(whole)


def test_the_trainer_takes_samples_of_a_dataset(start: Start) -> None:
    needs("transformers")
    ended = start(MAP_STYLE)
    assert ended.code == 0, ended.output
    assert "train_loss" in ended.output


def test_arrays_of_numpy(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "data/stores")
    names = {"__name__": "program"}
    exec(PROGRAMS["NumPy and JAX"][0], names)
    arrays: dict[str, np.ndarray] = names["arrays"]  # type: ignore[assignment]
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    assert arrays["planes"].shape[1:] == (12, 8, 8)


def test_arrays_of_jax(project: Path, start: Start) -> None:
    needs("jax")
    ended = start("NumPy and JAX", number=1)
    assert ended.code == 0, ended.output
    assert ended.epochs()[0] == [batch for batch in expected(project, "JAX", 1)[0] if len(batch) == 256]


EEG = """\
import mne
import numpy as np

for subject in range(4):
    noise = np.random.default_rng(subject).normal(0, 1e-5, (3, 256 * 40))
    raw = mne.io.RawArray(noise, mne.create_info(["Fz", "Cz", "Pz"], 256.0, "eeg"))
    raw.set_annotations(mne.Annotations(range(1, 39, 5), 4.0, ["eyes open", "eyes closed"] * 4))
    raw.save(f"eeg/sub-0{subject + 1}.fif")
"""
EEG_CHECKED = """
import outofcore
store = outofcore.open_store("eeg.zarr")
subjects = {split: {*store.sequences(split).read()["group"]} for split in ("train", "val", "test")}
assert subjects == {"train": {"sub-03", "sub-04"}, "val": {"sub-02"}, "test": {"sub-01"}}
batches = [*loader("eeg.zarr", "train", 64, window=window)]
assert sum(len(batch["eeg"]) for batch in batches) == 2 * 8 * 7
for batch in batches:
    assert (batch["epoch"] == batch["epoch"][:, :1]).all()
    assert (batch["event"] == batch["epoch"] % 2).all()
    assert 1 < batch["eeg"].std() < 10  # microvolts of noise of 10, less what the filter takes
"""


def test_epochs_of_mne_become_a_store(tmp_path: Path) -> None:
    needs("mne")
    (tmp_path / "eeg").mkdir()
    page = (ROOT / "docs/eeg.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for code in (EEG, program + EEG_CHECKED):
        ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr


def test_every_program_of_the_page_is_run() -> None:
    """And calls what there is, by names that are there, also of a framework that is not installed."""
    for program in chain.from_iterable(PROGRAMS.values()):
        nodes = [*ast.walk(ast.parse(program))]
        imported = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "outofcore"]
        functions = {alias.name: getattr(outofcore, alias.name) for node in imported for alias in node.names}
        assert functions, program
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                keywords = [str(keyword.arg) for keyword in node.keywords]
                inspect.signature(functions[node.func.id]).bind(*node.args, **dict.fromkeys(keywords))
    assert {*PROGRAMS} == {*RESUMED, *DISTRIBUTED, MAP_STYLE, "NumPy and JAX"}
    assert {len(programs) for name, programs in PROGRAMS.items() if name != "NumPy and JAX"} == {1}
    assert len(PROGRAMS["NumPy and JAX"]) == 2
