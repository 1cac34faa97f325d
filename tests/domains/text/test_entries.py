"""Several paths in ``raw`` by name: a store for each, one tokenizer for all."""

from __future__ import annotations

import json
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import outofcore
from outofcore.domains.text import DOMAIN
from outofcore.errors import ParamsError
from outofcore.params import Params, load_params
from outofcore.pipeline import open_result
from outofcore.report.collect import collect
from tests.lines_project import call

ROOT = Path(__file__).parents[3]
GIVEN = Path("data/tokenizers/given/tokenizer.json")
SETTINGS: dict[str, Any] = {
    "raw": {"letters": "raw/letters", "stories": "raw/stories.jsonl.zst"},
    "tokenizer": {"vocab_size": 400},
    "tensors": {"seq_len": 32},
    "audit": {"records": 10},
}


def write(**changes: Any) -> None:
    Path("params.yaml").write_text(yaml.safe_dump({"text": SETTINGS | changes}))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a stage in a folder that has letters and stories."""
    letters = tmp_path / "raw/letters"
    letters.mkdir(parents=True)
    DOMAIN.sample(letters, np.random.default_rng(0))
    (letters / "stories.jsonl.zst").rename(tmp_path / "raw/stories.jsonl.zst")
    monkeypatch.chdir(tmp_path)
    write()

    def run(name: str, *arguments: str) -> None:
        runpy.run_path(str(ROOT / "stages" / f"{name}.py"))["main"](*arguments)

    return run


def test_a_tokenizer_that_each_path_would_change_is_refused_with_the_way_out(stage: Callable[..., None]) -> None:
    with pytest.raises(ParamsError, match=r"tokenizer\.kind: .* expected file or gpt2, got bpe") as refused:
        stage("check", "text")
    told = str(refused.value)
    assert "\n" not in told
    write(tokenizer={"vocab_size": 400, "kind": "file"})
    command = shlex.split(told.partition("learn one with '")[2].partition("'")[0])
    call(*command[1:])
    learnt = json.loads(GIVEN.read_text())
    assert len(learnt["model"]["vocab"]) == 400
    stage("check", "text")
    stage("tokenizer")
    assert json.loads(Path("data/tokenizers/text.json").read_text()) == learnt


def test_stores_of_several_paths_are_read_as_one(stage: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = {"vocab_size": 400, "kind": "file"}
    write(tokenizer=tokenizer)
    outofcore.train_tokenizer("raw", GIVEN, vocab_size=400)
    stage("tokenizer")
    for entry in SETTINGS["raw"]:
        stage("convert", "text", entry)
    figures = [json.loads(path.read_text()) for path in sorted(Path("metrics/text/convert").glob("*.json"))]
    store = open_result(DOMAIN, load_params().section("text"))
    assert store.attributes["rows"]["train"] == sum(each["rows"]["train"] for each in figures)
    batches = outofcore.loader(store, "train", 8, tensors=outofcore.reading(store.stores[0], seq_len=32))
    assert any("train: 2 stores, " in note for note in batches.notes)
    assert next(iter(batches))["inputs"].shape == (8, 32)
    (found,) = collect(Path())
    assert found.store is not None
    assert found.store.card.found == sum(each["found"] for each in figures)
    assert found.store.pictures

    monkeypatch.setattr(type(DOMAIN), "planned_task", lambda _: None)  # what training takes is not asked here

    def done() -> list[str]:
        (planned,) = json.loads(call("plan", "--json").stdout)["domains"]
        return list(planned["done"])

    assert done() == ["letters", "stories"]
    content = json.loads(GIVEN.read_text())
    del content["model"]["merges"][-20:]
    GIVEN.write_text(json.dumps(content))
    stage("tokenizer")
    assert done() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "stream"}, "raw: expected one path in mode stream, got several by name"),
        (
            {"raw": {"a": "a.txt", "b": "b.hub"}},
            r"b\.hub names a dataset of the hub, which is read in mode stream only",
        ),
    ],
)
def test_what_has_no_store_is_one_path(changes: dict[str, Any], message: str) -> None:
    content = {"text": {**SETTINGS, "tokenizer": {"kind": "gpt2"}, **changes}}
    with pytest.raises(ParamsError, match=message):
        Params(content, Path("params.yaml")).section("text")
