"""What the scripts of the pipeline load before they work."""

from __future__ import annotations

import errno
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml

from tests.store.faults import Faults

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


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_is_stopped_speaks_of_resuming_if_it_does(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = MagicMock(side_effect=KeyboardInterrupt)
    for name in (
        "stages.load_machine",
        "stages.load_params",
        "params.load_params",
        "domains.registry.get_domain",
        "report.render.make_page",
    ):
        monkeypatch.setattr(f"outofcore.{name}", stop)
    monkeypatch.setattr("sys.argv", [f"{stage}.py", *(() if stage == "report" else ("chess",))])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "stages" / f"{stage}.py"), run_name="__main__")
    assert ended.value.code == 130
    resumes = "; finished work is kept, run the same command to resume" if stage in ("convert", "train") else ""
    assert capsys.readouterr().err == f"stopped{resumes}\n"


@pytest.mark.parametrize(
    ("text", "environment", "error"),
    [
        ("memroy: 2GB\n", {}, "no setting 'memroy'; did you mean memory?"),
        ("", {"OUTOFCORE_MEMORY": "2G0"}, "OUTOFCORE_MEMORY: expected "),
    ],
)
def test_the_first_stage_refuses_a_mistake_in_the_settings_of_the_machine(
    text: str,
    environment: dict[str, str],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """So that DVC removes nothing for it: test_repro shows that for one mistake."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "machine.yaml").write_text(text)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["check.py", "chess"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "stages/check.py"), run_name="__main__")
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    assert error in told
    assert not (tmp_path / "data").exists()


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


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_report_that_cannot_be_written_is_one_line_and_the_page_before_stays(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "reports/index.html"
    page.parent.mkdir()
    monkeypatch.setattr("sys.argv", ["report.py"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("outofcore.report.render.make_page", lambda _: "new")

    def report(faults: Faults) -> None:
        page.write_text("before")
        with pytest.MonkeyPatch.context() as patch:
            faults.install(patch)
            runpy.run_path(str(ROOT / "stages" / "report.py"), run_name="__main__")

    report(recorded := Faults(tmp_path))
    assert page.read_text() == "new"
    steps = [step for step in recorded.steps if step[0] not in ("mkdir", "unlink")]
    assert {"open", "fsync", "replace"} <= {call for call, _ in steps}
    capsys.readouterr()
    for step in steps:
        with pytest.raises(SystemExit) as ended:
            report(Faults(tmp_path, step, code))
        assert ended.value.code in (1, 2), step
        assert capsys.readouterr().err.count("\n") == 1, step
        assert page.read_text() == ("new" if step == ("fsync", "reports") else "before")
        assert list(page.parent.iterdir()) == [page]
