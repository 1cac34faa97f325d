"""A made-up result of a bench."""

from __future__ import annotations

from typing import Any


def made(name: str, ratio: float, against: str = "other") -> dict[str, Any]:
    row = {"label": "ours", "of": "", "table": "loading"}
    return {
        "name": name,
        "title": f"title of {name}",
        "command": f"python bench/{name}.py",
        "machine": {"processor": "P", "cores": 2, "memory_bytes": 8e9, "system": "S", "versions": {"numpy": "2"}},
        "facts": ["7 rows"],
        "rows": [
            {**row, "value": 1652341, "unit": "samples/s", "ratio": ratio, "against": against},
            {**row, "value": 12.34, "unit": "MB held", "ratio": None, "against": ""},
        ],
    }
