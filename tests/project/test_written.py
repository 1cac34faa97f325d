"""The settings of a project are printed from their types."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml
from pydantic import BaseModel

from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.project.written import MOST_COLUMNS, ORDER, section


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
