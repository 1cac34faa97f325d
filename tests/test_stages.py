"""What the scripts of the pipeline load before they work."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml

from outofcore.training.ranks import Ranks

ROOT = Path(__file__).parents[1]


STAGES = ("check", "convert", "evaluate", "report", "sample", "tokenizer", "train")


def test_no_stage_waits_for_torch_before_it_says_what_it_works_on() -> None:
    code = (
        f"import runpy, sys\nfor stage in {STAGES!r}:\n"
        f"    runpy.run_path(f'{ROOT}/stages/{{stage}}.py')\n"
        "    print(stage, *{'numba', 'torch', 'zarr'} & {*sys.modules})\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = ended.stdout.splitlines()
    assert lines[0] == "check"  # which runs first, and imports nothing that takes long
    assert len(lines) == len(STAGES)
    assert not any("torch" in line for line in lines)


def test_no_stage_removes_what_it_made_before_the_settings_are_checked() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    found = {name: stage.get("do", stage) for name, stage in stages.items()}
    checked = set(found["check"]["outs"]) | {"data/checked/text.convert"}
    safe = {"check"}
    for name in ("tokenizer", "convert"):
        assert checked & set(found[name]["deps"]), name
        safe.add(name)
    assert found["convert"]["outs"][0] in found["train"]["deps"]  # and so comes after the check
    assert {name for name, stage in found.items() if "params" in stage} == safe | {"train"}


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_rank_alone_writes_what_a_stream_read_and_removes_figures_of_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    train = runpy.run_path(str(ROOT / "stages" / "train.py"))["main"]
    anything, nothing = MagicMock(), MagicMock(return_value=None)
    anything.tally.figures.return_value = {"found": 5}
    known = dict.fromkeys(("find_cache", "training_needs"), nothing)
    replaced = ("load_params", "load_machine", "get_domain", "open_result", "check_evaluated", "Guard")
    known |= {name: MagicMock() for name in replaced}
    for name, value in known.items():
        monkeypatch.setitem(train.__globals__, name, value)
    for name, value in {
        "report.words.told": MagicMock(return_value=[]),
        "training.loaders.open_streams": MagicMock(return_value=(anything, anything)),
        "training.loop.fit": MagicMock(),
        "training.ranks.choose_device": MagicMock(),
        "training.ranks.meet": MagicMock(return_value=Ranks(rank, 2)),
        "training.results.identity_of": MagicMock(),
        "training.results.saved_bytes": MagicMock(return_value=(1, 1)),
        "training.results.split_digest": MagicMock(),
    }.items():
        monkeypatch.setattr(f"outofcore.{name}", value)
    known["load_params"].return_value.section.return_value.train.seed = 0
    known["load_params"].return_value.section.return_value.train.arithmetic = "native"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metrics/text").mkdir(parents=True)
    (tmp_path / "metrics/text/test.json").write_text("{}")
    train("text")
    (left,) = (tmp_path / "metrics/text").iterdir()
    assert left.name == ("test.json" if rank else "stream_run.json")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_is_stopped_speaks_of_resuming_if_it_does(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = MagicMock(side_effect=KeyboardInterrupt)
    for name in ("params.load_params", "domains.registry.get_domain", "report.render.make_page"):
        monkeypatch.setattr(f"outofcore.{name}", stop)
    monkeypatch.setattr("sys.argv", [f"{stage}.py", *(() if stage == "report" else ("chess",))])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "stages" / f"{stage}.py"), run_name="__main__")
    assert ended.value.code == 130
    resumes = "; finished work is kept, run the same command to resume" if stage in ("convert", "train") else ""
    assert capsys.readouterr().err == f"stopped{resumes}\n"


STOPPED_BY_IMPORT = """
import os, runpy, signal, sys
class Stop:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Stop())
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_is_stopped_while_it_imports_is_one_line(stage: str, tmp_path: Path) -> None:
    module = {"report": "outofcore.system.extras", "sample": "numpy"}.get(stage, "outofcore.params")
    program = STOPPED_BY_IMPORT.format(module=module, path=str(ROOT / "stages" / f"{stage}.py"))
    ended = subprocess.run(
        [sys.executable, "-c", program, "chess"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")
