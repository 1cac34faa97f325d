"""Every stage is a plain script: it runs where DVC is not installed, in the order of the page's Snakefile."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from outofcore.store.verify import verify
from tests.pipeline.conftest import ROOT, copy_project

pytestmark = [pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(900)]

PAGE = (ROOT / "docs/without-dvc.md").read_text("utf-8")
STAGES = """
import runpy, sys
class Blocked:
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("dvc", "dvc_data", "dvc_objects", "dvclive"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
try:
    import dvc
except ModuleNotFoundError:
    print("without DVC")
for command in sys.argv[1:]:  # in one process, which imports torch once
    sys.argv = command.split()
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_every_stage_runs_without_dvc(tmp_path: Path) -> None:
    project = copy_project(tmp_path / "project")
    params = project.folder / "params.yaml"
    params.write_text(params.read_text().replace("max_steps: -1", "max_steps: 3"))
    for name in ("metrics", "plots", "models", "reports"):  # which the checkout may have
        for path in project.folder.glob(f"{name}/chess/*.*"):
            path.unlink()
    commands = re.findall(r"^    python (stages/\w+\.py(?: chess)?)", PAGE, re.MULTILINE)
    assert len(commands) == 6
    assert "without DVC" in project.run(sys.executable, "-c", STAGES, *commands)
    assert verify(project.folder / "data/stores/chess.zarr").problems == ()
    assert json.loads(project.read("metrics/chess/test.json"))
    for name in ("models/chess/model.pt", "plots/chess/accuracy_by_ply.csv", "reports/index.html"):
        assert (project.folder / name).is_file()


def test_the_snakefile_calls_the_stages_as_the_page_does() -> None:
    snakefile = re.findall(r'shell: "(.*)"', PAGE)
    called = [command.replace("{wildcards.domain}", "chess") for command in snakefile]
    commands = re.findall(r"^    (python stages/\w+\.py(?: chess)?)", PAGE, re.MULTILINE)
    assert called == commands[1:]
