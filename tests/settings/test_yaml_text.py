from __future__ import annotations

import pytest

from outofcore.settings.yaml_text import parse_json, parse_yaml


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", "key 'a' twice, in lines 1 and 3", id="plain"),
        pytest.param("x:\n  a: 1\n  'a': 1\n", "key 'a' twice, in lines 2 and 3", id="inside and quoted"),
        pytest.param("- {a: 1, a: 2}\n", "key 'a' twice, in lines 1 and 1", id="in one line"),
        pytest.param("on: 1\nyes: 2\n", "key True twice, in lines 1 and 2", id="two names of true"),
    ],
)
def test_a_key_that_is_given_twice_is_refused_with_both_lines(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_yaml(text)


def test_a_key_that_is_merged_may_be_given_again() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b\n  <<: *a\n  x: 2\nc:\n  <<: *b\n  x: 3\n"
    assert parse_yaml(text)["c"] == {"x": 3, "y": 1}


@pytest.mark.parametrize("kind", [str, str.encode], ids=["text", "bytes"])
def test_json_has_each_key_once(kind: type) -> None:
    assert parse_json(kind('{"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]}')) == {"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]}
    with pytest.raises(ValueError, match="key 'b' twice, in lines 1 and 2"):
        parse_json(kind('{"a": {"b": 1,\n"b": 2}}'))
    with pytest.raises(ValueError, match="key 'b' twice"):
        parse_json(kind('{"a": "\\/", "b": 1, "b": 2}'))
    with pytest.raises(ValueError, match="key 'b' twice, in lines 2 and 3"):
        parse_json(kind('{\n\t"b": 1,\n\t"b": 2}\n'))
