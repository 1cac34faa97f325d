"""Lanes of the pipeline from a lock file."""

from __future__ import annotations

import json
from pathlib import Path

from outofcore.report.lanes import lanes


def write_lock(path: Path, stages: dict[str, tuple[list[str], list[str]]]) -> Path:
    content = {
        name: {"deps": [{"path": each} for each in reads], "outs": [{"path": each} for each in writes]}
        for name, (reads, writes) in stages.items()
    }
    path.write_text(json.dumps({"stages": content}))
    return path


def test_a_stage_follows_those_that_it_reads_from(tmp_path: Path) -> None:
    lock = write_lock(
        tmp_path / "dvc.lock",
        {
            "train@text": (["store"], ["model"]),
            "convert@text": (["raw", "tokenizer.json", "schema.py"], ["store"]),
            "tokenizer": (["raw"], ["tokenizer.json"]),
            "sample@text": ([], ["raw"]),
            "convert@go": (["games.sgf"], ["other"]),
            "report": (["model", "other"], []),
        },
    )
    found = lanes(lock, "report")
    assert {domain: [step.name for step in steps] for domain, steps in found.items()} == {
        "go": ["convert@go"],
        "text": ["sample@text", "tokenizer", "convert@text", "train@text"],
    }
    assert [item.path for item in found["go"][0].inputs] == ["games.sgf"]
    assert found["text"][2].inputs == ()


def test_a_sample_that_nobody_reads_is_left_out(tmp_path: Path) -> None:
    lock = write_lock(
        tmp_path / "dvc.lock",
        {
            "sample@go": ([], ["data/sample/go"]),
            "convert@go": (["games.sgf"], ["store"]),
            "train@go": (["store"], ["model"]),
            "sample@text": ([], ["data/sample/text"]),
        },
    )
    found = lanes(lock, "report")
    assert [step.name for step in found["go"]] == ["convert@go", "train@go"]
    assert [step.name for step in found["text"]] == ["sample@text"]


def test_an_input_that_two_stages_of_a_lane_read_is_shown_once(tmp_path: Path) -> None:
    stages = {"tokenizer": (["raw"], ["tokenizer.json"]), "convert@text": (["raw", "tokenizer.json"], ["store"])}
    lane = lanes(write_lock(tmp_path / "dvc.lock", stages), "report")["text"]
    assert [[item.path for item in step.inputs] for step in lane] == [["raw"], []]


def test_a_stage_that_several_domains_read_from_stands_apart(tmp_path: Path) -> None:
    lock = write_lock(
        tmp_path / "dvc.lock",
        {"common": ([], ["x"]), "convert@a": (["x"], ["y"]), "convert@b": (["x"], ["z"])},
    )
    assert [step.name for step in lanes(lock, "report")[""]] == ["common"]


def test_digests_of_code_are_no_data(tmp_path: Path) -> None:
    stages = {
        "check@go": (["src/go"], ["data/checked/go.convert"]),
        "convert@go": (["games.sgf", "data/checked/go.convert"], ["store"]),
    }
    (step,) = lanes(write_lock(tmp_path / "dvc.lock", stages), "report")["go"]
    assert (step.name, [item.path for item in step.inputs]) == ("convert@go", ["games.sgf"])


def test_what_left_the_project_is_left_out(tmp_path: Path) -> None:
    stages = {
        "convert@go": ([], ["x"]),
        "convert@text": ([], ["y"]),
        "report@go": (["x"], []),
        "report@text": (["y"], []),
    }
    assert list(lanes(write_lock(tmp_path / "dvc.lock", stages), "report", {"go"})) == ["go"]
    assert [step.name for step in lanes(tmp_path / "dvc.lock", "report")["text"]] == ["convert@text"]


def test_a_stage_that_reads_a_folder_follows_all_that_write_into_it(tmp_path: Path) -> None:
    stages = {
        "train@chess": (["stores/chess"], ["model"]),
        **{f"convert-chess@{month}": ([f"{month}.pgn"], [f"stores/chess/{month}.zarr"]) for month in ("jan", "feb")},
        "convert@go": (["games.sgf"], ["stores/chess960.zarr"]),
    }
    found = lanes(write_lock(tmp_path / "dvc.lock", stages), "report")
    assert [step.name for step in found["chess"]] == ["convert-chess@feb", "convert-chess@jan", "train@chess"]
    assert found["chess"][2].inputs == ()


def test_without_a_lock_file_there_are_no_lanes(tmp_path: Path) -> None:
    assert lanes(tmp_path / "dvc.lock", "report") == {}
    (tmp_path / "dvc.lock").write_text("")
    assert lanes(tmp_path / "dvc.lock", "report") == {}
