"""The settings of a project are printed from their types."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml
from pydantic import BaseModel

from outofcore.conversion.journal import NOT_CONVERSION
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.project.written import MOST_COLUMNS, ORDER, definition, section


def described(kind: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Every key with its description."""
    for name, key in kind.model_fields.items():
        if isinstance(key.annotation, type) and issubclass(key.annotation, BaseModel):
            yield from described(key.annotation)
        yield name, " ".join((key.description or "").split())


@pytest.mark.parametrize("name", [name for name in ORDER if name in DOMAINS])
def test_every_key_is_there_with_its_value_and_description(name: str) -> None:
    text = section(name)
    content = yaml.safe_load(text)[name]
    kind = get_domain(name).section
    assert kind.model_validate(content) == kind.model_validate({**content, "raw": f"data/sample/{name}"})
    words = " ".join(re.sub(r"^ *# ", "", line) for line in text.splitlines())
    for key, description in described(kind):
        assert re.search(rf"^ *{key}:", text, re.MULTILINE), key
        assert description in words, key
    assert all(len(line) <= MOST_COLUMNS + 12 for line in text.splitlines())


@pytest.mark.parametrize("name", [name for name in ORDER if name in DOMAINS])
def test_every_section_is_watched_by_the_stage_that_makes_something_of_it(name: str) -> None:
    text = definition((name,), sources=True, sampled=()).replace("${item.mode}", "store")
    stages = {stage: content.get("do", content) for stage, content in yaml.safe_load(text)["stages"].items()}
    watched = {
        stage: {param.rpartition(".")[2] for param in content.get("params", ())} for stage, content in stages.items()
    }
    recorded = {key for key, field in get_domain(name).section.model_fields.items() if not field.exclude} - {"raw"}
    trained = NOT_CONVERSION - {"raw", "match"}
    assert watched["train"] == trained
    assert watched["convert"] | watched.get("tokenizer", set()) == recorded - trained
