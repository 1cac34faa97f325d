"""YAML and JSON that may come from anywhere: whatever is wrong with a text is one kind of error.

A key that is given twice is wrong too: readers differ in which of its values counts.
"""

from __future__ import annotations

import json
from typing import Any

import yaml


def parse_yaml(text: str) -> Any:
    """The values of a text; raises ValueError, in one line, for what is no YAML, nested too deep, or no date.

    Also for a key that a mapping has twice, naming both lines.
    """
    try:
        return yaml.load(text, _Distinct)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def parse_json(text: str | bytes) -> Any:
    """The values of a text; raises ValueError for what is no JSON or has a key twice, RecursionError if too deep."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            lines = (text if isinstance(text, str) else text.decode()).replace("\t", " ").strip()
            if "\n" in lines:
                parse_yaml(lines)  # which numbers the lines of JSON too
            names = [name for name, _ in pairs]
            raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} twice")
        return values

    return json.loads(text, object_pairs_hook=distinct)


class _Distinct(yaml.SafeLoader):
    """Refuses a key that a mapping has twice; what is merged (``<<``) may be given again."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        lines: dict[Any, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag not in _OPERATORS):
            name, line = self.construct_object(key), key.start_mark.line + 1
            if name in lines:
                raise ValueError(f"key {name!r} twice, in lines {lines[name]} and {line}; remove one of them")
            lines[name] = line
        return node


_OPERATORS = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
