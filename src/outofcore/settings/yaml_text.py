"""YAML that may come from anywhere: whatever is wrong with a text is one kind of error."""

from __future__ import annotations

from typing import Any

import yaml


def parse_yaml(text: str) -> Any:
    """The values of a text; raises ValueError, in one line, for what is no YAML, nested too deep, or no date."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
