"""A text that grows: a store for each path, one tokenizer for all."""

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

from outofcore.domains.text import DOMAIN
from outofcore.errors import ParamsError
from tests.lines_project import call

ROOT = Path(__file__).parents[3]
GIVEN = Path("data/tokenizers/given/tokenizer.json")
SETTINGS: dict[str, Any] = {
    "raw": "raw",
    "grow": True,
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
