"""A wrong key in params.yaml is named, with what was expected and what is near."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from outofcore.errors import ParamsError
from outofcore.params import load_params

GOOD: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "params.yaml").read_text())


def load(tmp_path: Path, content: Any) -> Any:
    path = tmp_path / "params.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return load_params(path)


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


@pytest.mark.parametrize("domain", sorted(GOOD))
def test_the_projects_own_file_names_every_key_of_every_section(domain: str) -> None:
    section = load_params(Path(__file__).parents[1] / "params.yaml").section(domain)
    assert plain(section) == GOOD[domain]


def changed(path: str, value: Any) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(yaml.safe_dump(GOOD))
    place = content
    *steps, last = path.split(".")
    for step in steps:
        place = place[step]
    place[last] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("chess.filters.min_ello", 1900, r"unknown key chess\.filters\.min_ello; did you mean 'min_elo'\?"),
        ("chess.filters.min_elo", "high", r"chess\.filters\.min_elo: .*integer.*got 'high'"),
        ("chess.store.codec", "gzip", r"chess\.store\.codec: .*'none', 'lz4' or 'zstd', got 'gzip'"),
        ("chess.store.codec", False, r"chess\.store\.codec: .*got False \(YAML reads on, off, yes and no"),
        ("chess.store.chunk_rows", 100, r"chess\.store: .*multiple of chunk_rows"),
        ("chess.splits.val", 0.9, r"chess\.splits\.val: .*0\.5.*got 0\.9"),
        ("chees", {}, r"unknown key 'chees'; did you mean 'chess'\?"),
    ],
)
def test_a_wrong_value_is_told_with_its_key(tmp_path: Path, path: str, value: Any, expected: str) -> None:
    with pytest.raises(ParamsError, match=expected):
        load(tmp_path, changed(path, value)).section("chess")


def test_a_missing_section_or_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"expected a section 'chess', found none"):
        load(tmp_path, {}).section("chess")
    with pytest.raises(ParamsError, match=r"no such file; run from the folder that holds params\.yaml"):
        load_params(tmp_path / "absent.yaml")
    with pytest.raises(ParamsError, match="not YAML"):
        load(tmp_path, "a: [1,\nb: }")
    with pytest.raises(ParamsError, match="expected a mapping of sections, got list"):
        load(tmp_path, [1])
    with pytest.raises(ParamsError, match="no domain 'shogi'; there are chess"):
        load(tmp_path, GOOD).section("shogi")
