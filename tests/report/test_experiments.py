"""Experiments side by side, as the real DVC has kept them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from outofcore.errors import OutOfCoreError
from outofcore.report.experiments import Experiment, domains, experiments
from outofcore.report.render import make_comparison
from tests.pipeline.conftest import Project
from tests.report.page import Page

pytestmark = [pytest.mark.xdist_group("experiments"), pytest.mark.timeout(900)]
PIPELINE = """
stages:
  train:
    foreach: [chess, go]
    do:
      cmd: python train.py ${item}
      params: ["${item}"]
      outs: ["models/${item}"]
      metrics: [{"metrics/${item}/train.json": {cache: false}}]
  evaluate:
    foreach: [chess, go]
    do:
      cmd: python evaluate.py ${item}
      deps: ["models/${item}"]
      metrics: [{"metrics/${item}/test.json": {cache: false}}]
"""
PARAMS = """
chess: {filters: {min_elo: null}, train: {learning_rate: 0.01, seed: 1}}
go: {train: {learning_rate: 0.01}}
"""
TRAIN = """
import json, pathlib, sys, yaml
name = sys.argv[1]
section = yaml.safe_load(open("params.yaml"))[name]
for folder in ("models", f"metrics/{name}"):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
pathlib.Path(f"models/{name}").write_text(str(section))
split = f"split of {section.get('filters', {}).get('min_elo')}"
rate = section["train"]["learning_rate"]
figures = {"steps": 3, "top1": 10 * rate, "top1_most_frequent": 0.05, "val_digest": split}
pathlib.Path(f"metrics/{name}/train.json").write_text(json.dumps(figures))
"""
EVALUATE = """
import json, pathlib, sys
figures = {"top1": 0.5, "low": {"top1": 0.25}, "high": {"top1": 0.75}, "test_digest": "one"}
pathlib.Path(f"metrics/{sys.argv[1]}/test.json").write_text(json.dumps(figures))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project below the folder of its repository, with two experiments; the second also evaluated."""
    repository = tmp_path_factory.mktemp("repository")
    games = Project(repository / "games")
    games.folder.mkdir()
    for name, text in {"dvc.yaml": PIPELINE, "params.yaml": PARAMS, "train.py": TRAIN, "evaluate.py": EVALUATE}.items():
        (games.folder / name).write_text(text)
    games.git("init", "--quiet", "--initial-branch", "main", str(repository))
    Project(repository).dvc("init")
    games.dvc("repro")
    games.git("add", "--all", str(repository))
    games.git("commit", "--quiet", "--message", "where we start")
    games.dvc("exp", "run", "-n", "slow", "-S", "chess.train.learning_rate=0.001", "train@chess")
    strong = ("-S", "chess.train.learning_rate=0.01", "-S", "chess.filters.min_elo=2200")
    games.dvc("exp", "run", "-n", "strong", *strong, "evaluate@chess")
    return games.folder


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    return Page(make_comparison(run))


def test_settings_that_differ_stand_beside_figures(page: Page) -> None:
    rows = [element.text.strip() for element in page.all("tr")]
    assert rows[0] == "|experiment|filters.min_elo|train.learning_rate|top 1"
    assert sorted(rows[1:5]) == [
        "|main (commit)|null|0.01|0.1",
        "|slow|null|0.001|0.01",
        "|strong|2200|0.01|0.1",
        "|workspace|2200|0.01|0.1",
    ]


def test_a_test_of_another_model_is_not_shown(page: Page) -> None:
    rows = [element.text.strip() for element in page.all("tr")][5:]
    assert rows[0] == "|experiment|filters.min_elo|train.learning_rate|top 1|top 1, 95 % interval"
    assert sorted(row.split("|")[1] for row in rows[1:]) == ["main (commit)", "strong", "workspace"]
    assert "|strong|2200|0.01|0.5|0.25 to 0.75" in rows
    assert "the stage has not run with these settings: slow." in page.source


def test_other_data_is_pointed_out(page: Page) -> None:
    first, second = sorted(element.text for element in page.all("li") if element.text.startswith("split of"))
    assert first.startswith("split of 2200: ")
    assert set(first.partition(": ")[2].split(", ")) == {"workspace", "strong"}
    assert set(second.removeprefix("split of None: ").split(", ")) == {"main (commit)", "slow"}
    assert "All on the same data: one." in page.source


def test_a_domain_without_differences_is_left_out(run: Path, page: Page) -> None:
    assert [element.text for element in page.all("h2")] == ["Chess"]
    assert {each.name for each in experiments(run)} == {"workspace", "main (commit)", "slow", "strong"}


def test_the_page_needs_nothing_else(page: Page) -> None:
    for element in page.elements:
        for name in ("src", "href"):
            assert element.attributes.get(name, "#").startswith(("#", "data:")), element
    assert not page.all("script", "img")


def test_the_script_of_the_stage_makes_it(run: Path, page: Page) -> None:
    script = Path(__file__).parents[2] / "stages" / "report.py"
    ended = subprocess.run(
        [sys.executable, script, "--experiments"], cwd=run, capture_output=True, text=True, check=True
    )
    assert "reports/experiments.html" in ended.stdout
    assert (run / "reports" / "experiments.html").read_text("utf-8") == page.source


def test_windows_of_another_length_are_other_data() -> None:
    def made(name: str, seq_len: int) -> Experiment:
        figures = {"loss": 1.0 / seq_len, "val_digest": "one"}
        return Experiment(name, {"text.tensors.seq_len": seq_len}, {"metrics/text/train.json": figures})

    validation, _ = domains([made("a", 64), made("b", 128)])["text"]
    assert validation.data == {"one, text.tensors.seq_len 64": ["a"], "one, text.tensors.seq_len 128": ["b"]}


def test_settings_that_have_not_run_yet_have_no_figures(run: Path) -> None:
    before = (run / "params.yaml").read_text()
    try:
        (run / "params.yaml").write_text(before.replace("seed: 1", "seed: 2"))
        workspace, *_ = experiments(run)
    finally:
        (run / "params.yaml").write_text(before)
    assert (workspace.name, [path for path in workspace.metrics if "chess" in path]) == ("workspace", [])


def test_without_dvc_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(OutOfCoreError, match="'dvc exp show' cannot list experiments: you are not inside"):
        experiments(tmp_path)
