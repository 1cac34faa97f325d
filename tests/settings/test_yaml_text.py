from __future__ import annotations

import pytest

from outofcore.settings.yaml_text import parse_yaml


def test_values_are_those_of_yaml() -> None:
    assert parse_yaml("chess: {min_elo: 2000, raw: games}\n") == {"chess": {"min_elo": 2000, "raw": "games"}}
    assert parse_yaml("") is None


@pytest.mark.parametrize(
    "text",
    [
        "a: [1",
        "a: 1\na: : 2",
        "[" * 5000,
        "- " * 5000 + "x",
        "day: 2024-02-31",
        "clock: 2024-01-01 99:00:00",
        "a: &x [*x, !!python/object:os.system ls]",
        "a: \x00",
        "<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> other\n",
    ],
)
def test_what_is_no_yaml_is_one_kind_of_error_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as raised:
        parse_yaml(text)
    assert type(raised.value) is ValueError
    assert "\n" not in str(raised.value)
