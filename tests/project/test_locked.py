"""A tokenizer that DVC made of another text is not that of the run."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from outofcore.domains.text.params import TextSection
from outofcore.errors import ParamsError
from outofcore.project.locked import put_back, refuse_earlier_tokenizer

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


def test_what_dvc_has_removed_is_put_back_where_its_cache_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"a.zarr/zarr.json": b"{}", "a.zarr/train/c.0": b"rows", "rejects.csv": b"file"}
    objects = {path: cached(content[path]) for path in content}
    names = [{"md5": objects[path], "relpath": path.removeprefix("a.zarr/")} for path in list(content)[:2]]
    folder = cached(json.dumps(names).encode(), ".dir")
    outs = [
        {"path": "rejects.csv", "md5": objects["rejects.csv"], "size": 4},
        {"path": "a.zarr", "md5": folder, "size": 6},
        {"path": "here", "md5": "0" * 32, "size": 10**6},
    ]
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": {"convert@chess": {"outs": outs}}}))
    Path("here").touch()
    assert put_back() == ""  # not run by DVC
    monkeypatch.setenv("DVC_STAGE", "train@chess")
    assert put_back() == ""
    for stage in ("convert@chess", "below/dvc.yaml:convert@chess"):
        monkeypatch.setenv("DVC_STAGE", stage)
        assert put_back() == "; a.zarr is again what it was"
        assert {path: Path(path).read_bytes() for path in content} == content
        assert put_back() == ""
        Path("rejects.csv").unlink()
        shutil.rmtree("a.zarr")
    # Copies would take room that there may not be, and a folder is put back whole or not at all.
    Path(".dvc/config").write_text("[cache]\n    type = copy\n")
    assert put_back() == "; DVC removed a.zarr beforehand, and 'dvc checkout' restores it"
    Path(".dvc/config").write_text("[cache]\n    type = hardlink\n")
    cache = Path(".dvc/cache/files/md5") / objects["a.zarr/train/c.0"][:2] / objects["a.zarr/train/c.0"][2:]
    cache.unlink()
    assert put_back() == "; DVC removed a.zarr beforehand, and 'dvc checkout' restores it"
    assert not Path("a.zarr").exists()


def cached(content: bytes, ending: str = "") -> str:
    """Put an object into the cache of a project here that links; its name."""
    name = hashlib.md5(content).hexdigest() + ending
    place = Path(".dvc/cache/files/md5") / name[:2] / name[2:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    Path(".dvc/config").write_text("[cache]\n    type = hardlink\n")
    return name
