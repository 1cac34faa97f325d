"""What a user of ``dvc repro`` and ``dvc exp run`` sees."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from outofcore.store.verify import verify
from tests.pipeline.conftest import ROOT, Project, copy_project

pytestmark = [pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(900)]


def stage_outputs(lock: str, stage: str) -> dict[str, str]:
    return {out["path"]: out["md5"] for out in yaml.safe_load(lock)["stages"][stage]["outs"]}


@pytest.fixture(scope="module")
def clone(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A clone with the sample input and nothing made of it."""
    other = Project(tmp_path_factory.mktemp("elsewhere") / "clone")
    project.run("git", "clone", "-q", str(project.folder), str(other.folder))
    shutil.copytree(project.folder / "data/sample/chess", other.folder / "data/sample/chess")
    return other


def test_a_fresh_clone_gives_the_store_that_the_lock_file_states(project: Project) -> None:
    stated = stage_outputs((ROOT / "dvc.lock").read_text(), "convert@chess")
    assert stage_outputs(project.read("dvc.lock"), "convert@chess") == stated
    assert verify(project.folder / "data/stores/chess.zarr").problems == ()


@pytest.mark.long
def test_plain_repro_in_a_clone_leaves_what_is_committed(tmp_path: Path) -> None:
    project = copy_project(tmp_path / "project")
    project.dvc("repro", OUTOFCORE_WORKERS="2")
    assert project.git("diff", "--name-only") == ""


def test_every_record_is_accounted_for(project: Project) -> None:
    figures = json.loads(project.read("metrics/chess/convert.json"))
    assert figures["found"] == figures["accepted"] + sum(figures["rejected"].values())
    assert figures["audited"] > 0
    assert figures["estimate_bytes"] > 0  # of input that is compressed in part, so that its size has no bound


def test_nothing_runs_a_second_time(project: Project) -> None:
    assert "Data and pipelines are up to date" in project.dvc("repro", "convert@chess")
    assert project.dvc("status", "convert@chess").strip().endswith("up to date.")


def test_a_store_takes_its_space_once(project: Project) -> None:
    shards = [path for path in (project.folder / "data/stores/chess.zarr").rglob("c.*") if path.stat().st_size]
    assert shards
    assert all(path.stat().st_nlink >= 2 for path in shards)  # the cache holds the same file


def test_an_experiment_reruns_what_depends_on_its_param(own: Project) -> None:
    before = json.loads(own.read("metrics/chess/convert.json"))
    told = own.dvc("exp", "run", "-n", "strong", "-S", "chess.filters.min_elo=1600", "convert@chess")
    assert "Running stage 'convert@chess'" in told
    assert "Running stage 'sample@chess'" not in told
    assert "Running stage 'train@chess'" in own.dvc("repro", "--dry", "train@chess")
    after = json.loads(own.read("metrics/chess/convert.json"))
    assert after["found"] == before["found"]
    assert after["accepted"] < before["accepted"]
    assert "strong" in own.dvc("exp", "show", "--csv")
    own.git("checkout", "-q", "--", ".")
    own.dvc("checkout", "-q", "-f", "--with-deps", "train@chess")
    params = yaml.safe_load(own.read("params.yaml"))
    params["chess"]["train"]["learning_rate"] = 0.01
    (own.folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    told = own.dvc("repro", "--dry", "train@chess")
    assert "Running stage 'convert@chess'" not in told
    assert "Running stage 'train@chess'" in told
    own.git("checkout", "-q", "--", ".")


def content(project: Project) -> dict[str, bytes]:
    """All that a conversion leaves and a machine does not decide."""
    made = [path for path in (project.folder / "data/stores/chess.zarr").rglob("*") if path.is_file()]
    made += [project.folder / "data/rejects/chess.csv", project.folder / "metrics/chess/convert.json"]
    return {path.relative_to(project.folder).as_posix(): path.read_bytes() for path in made}


@pytest.mark.long
def test_the_number_of_workers_changes_no_byte(project: Project, clone: Project) -> None:
    clone.git("checkout", "-q", "--", ".")
    expected = content(project)  # of two threads
    clone.run("python", "stages/convert.py", "chess", OUTOFCORE_WORKERS="3")
    assert content(clone) == expected
    assert clone.git("status", "--porcelain") == ""


def test_a_users_mistake_is_one_line(project: Project, clone: Project) -> None:
    params = project.read("params.yaml").replace("raw: data/sample/chess", "raw: nowhere")
    (clone.folder / "params.yaml").write_text(params)
    told = clone.run("python", "stages/convert.py", "chess", code=2)
    first, error = told.strip().splitlines()
    assert first == "chess: converting nowhere"
    assert "found nothing at nowhere" in error


def test_a_misspelt_key_costs_nothing(own: Project) -> None:
    whole = own.read("params.yaml")
    before = {path: path.stat() for path in made(own)}
    assert {path.parts[-2] for path in before} >= {"chess.zarr", "rejects", "chess"}
    (own.folder / "params.yaml").write_text(whole.replace("min_elo:", "min_elos:"))
    try:
        told = own.dvc("repro", "--no-commit", "train@chess", code=255)
    finally:
        (own.folder / "params.yaml").write_text(whole)
    assert "unknown key chess.filters.min_elos; did you mean" in told
    assert {path: path.stat() for path in made(own)} == before
    assert "Running stage" not in own.dvc("repro", "train@chess")


@pytest.mark.long
def test_a_mistake_in_the_settings_of_the_machine_costs_nothing(own: Project) -> None:
    whole, settings = own.read("params.yaml"), own.folder / "machine.yaml"
    machine = settings.read_text() if settings.exists() else ""
    before = {path: path.stat() for path in made(own)}
    (own.folder / "params.yaml").write_text(whole.replace("min_elo: null", "min_elo: 1650"))  # in no run cache
    settings.write_text(f"{machine}device: cuda:99\n")
    try:
        told = own.dvc("repro", "--no-commit", "train@chess", code=255)
    finally:
        (own.folder / "params.yaml").write_text(whole)
        settings.write_text(machine)
    assert re.search("torch .* finds no such device here", told)
    assert {path: path.stat() for path in made(own)} == before
    own.dvc("repro", "train@chess")


@pytest.mark.long
def test_a_refusal_by_a_stage_costs_nothing(own: Project) -> None:
    whole = own.read("params.yaml")
    before = {path: path.read_bytes() for path in made(own)}
    (own.folder / "params.yaml").write_text(whole.replace("min_elo: null", "min_elo: 1660"))
    try:  # this memory is stated well, and too little for any conversion
        told = own.dvc("repro", "--no-commit", "train@chess", code=255, OUTOFCORE_MEMORY="1MB")
    finally:
        (own.folder / "params.yaml").write_text(whole)
    assert "; data/stores/chess.zarr is again what it was" in told
    assert {path: path.read_bytes() for path in made(own)} == before
    own.dvc("repro", "train@chess")


def made(own: Project) -> list[Path]:
    """What the stages of chess have left."""
    folders = ["data/stores/chess.zarr", "data/rejects", "models/chess", "plots/chess", "metrics/chess"]
    return [path for folder in folders for path in (own.folder / folder).rglob("*") if path.is_file()]
