"""A tokenizer that DVC made of another text is not that of the run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from outofcore.domains.text.params import TextSection
from outofcore.errors import ParamsError
from outofcore.project.locked import refuse_earlier_tokenizer, removed_outputs

SOURCE = {"text_column": "text"}


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Settings of which DVC made a tokenizer, in a project."""
    monkeypatch.chdir(tmp_path)
    tokenizer = {"kind": "bpe", "vocab_size": 1024, "path": "data/text.json"}
    Path("data").mkdir()
    Path("data/text.json").write_text("{}")
    stage = {
        "deps": [{"path": "data/checked/text.convert"}, {"path": "data/raw"}],
        "params": {
            "params.yaml": {"text.match": "**/*", "text.source": {"text_column": "text"}, "text.tokenizer": tokenizer}
        },
        "outs": [{"path": "data/text.json", "md5": hashlib.md5(b"{}").hexdigest()}],
    }
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": {"tokenizer": stage}}))
    return {"raw": "data/raw", "tokenizer": tokenizer}


def check(section: dict[str, Any], **changes: Any) -> None:
    refuse_earlier_tokenizer(TextSection.model_validate(section | changes), Path("dvc.lock"))


def test_settings_that_made_it_are_accepted(section: dict[str, Any]) -> None:
    check(section)
    check(section, train={"batch_size": 7})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"raw": "data/mine.txt"}, "another text.raw, by"),
        ({"source": {"text_column": "body"}}, "another text.source, by"),
        ({"raw": "data/mine.txt", "match": "*.txt"}, "another text.raw and another text.match, by"),
        ({"tokenizer": {"vocab_size": 2048, "path": "data/text.json"}}, "another text.tokenizer, by"),
    ],
)
def test_other_settings_are_refused(section: dict[str, Any], changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ParamsError, match=f"data/text.json was made for {named} dvc.lock.*'dvc repro tokenizer'"):
        check(section, **changes)


def test_without_a_record_of_that_file_nothing_is_known(section: dict[str, Any]) -> None:
    Path("data/text.json").write_text("{ }")  # made by hand since
    check(section, raw="data/mine.txt")
    Path("dvc.lock").write_text("stages: [")
    check(section, raw="data/mine.txt")
    Path("dvc.lock").unlink()
    check(section, raw="data/mine.txt")


def test_an_error_names_the_largest_output_that_dvc_has_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert removed_outputs() == ""
    outs = [{"path": "rejects.csv", "size": 80}, {"path": "a.zarr", "size": 5000}, {"path": "here", "size": 10**6}]
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": {"convert@chess": {"outs": outs}}}))
    Path("here").touch()
    assert removed_outputs() == ""  # not run by DVC
    for stage in ("convert@chess", "below/dvc.yaml:convert@chess"):
        monkeypatch.setenv("DVC_STAGE", stage)
        assert removed_outputs() == "; DVC removed a.zarr beforehand, and 'dvc checkout' restores it"
    monkeypatch.setenv("DVC_STAGE", "train@chess")
    assert removed_outputs() == ""
    monkeypatch.setenv("DVC_STAGE", "convert@chess")
    for path in ("rejects.csv", "a.zarr"):
        Path(path).touch()
    assert removed_outputs() == ""
