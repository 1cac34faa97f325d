"""A wrong key in params.yaml is named, with what was expected and what is near."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError
from outofcore.params import given_settings, load_params, section_of
from outofcore.settings.machine import load_machine

TEXT = (Path(__file__).parents[1] / "params.yaml").read_text()
GOOD: dict[str, Any] = yaml.safe_load(TEXT)


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
        ("chess.splits.val", 1.1, r"chess\.splits\.val: .*share from 0 to 1.*got 1\.1"),
        ("chess.train.learning_rate", float("inf"), r"chess\.train\.learning_rate: .*finite"),
        ("chess.train.learning_rate", float("nan"), r"chess\.train\.learning_rate: .*finite"),
        ("chess.train.learning_rate", 1e9, r"chess\.train\.learning_rate: .*less than or equal"),
        ("chess.train.learning_rate", "fast", r"chess\.train\.learning_rate: .*number"),
        ("chess.train.weight_decay", float("inf"), r"chess\.train\.weight_decay: .*finite"),
        ("chess.train.batch_size", True, r"chess\.train\.batch_size: .*integer.*got True"),
        ("chess.train.batch_size", 32.0, r"chess\.train\.batch_size: .*integer"),
        ("chess.train.batch_size", "32", r"chess\.train\.batch_size: .*integer"),
        ("chess.train.batch_size", 2**40, r"chess\.train\.batch_size: .*less than or equal"),
        ("chess.train.epochs", 2**70, r"chess\.train\.epochs: "),
        ("chess.train.val_examples", 0, r"chess\.train\.val_examples: .*greater than or equal to 1"),
        ("chess.tensors.mirror", 1, r"chess\.tensors\.mirror: .*boolean"),
        ("chess.splits.val", True, r"chess\.splits\.val: .*share from 0 to 1.*got True"),
        ("chees", {}, r"unknown key 'chees'; did you mean 'chess'\?"),
    ],
)
def test_a_wrong_value_is_told_with_its_key(tmp_path: Path, path: str, value: Any, expected: str) -> None:
    with pytest.raises(ParamsError, match=expected):
        load(tmp_path, changed(path, value)).section("chess")


def test_a_name_that_yaml_reads_as_a_number_is_to_be_quoted(tmp_path: Path) -> None:
    words = r'chess\.filters\.tags\.2024\.1: names are texts, got 2024\.1 \(float\); quote the name, as in "2024\.01":'
    with pytest.raises(ParamsError, match=words):
        load(tmp_path, changed("chess.filters.tags", {2024.1: ["x"]})).section("chess")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("neural.source.frame_shape", [0, -1]),
        ("neural.source.frame_shape", []),
        ("neural.source.frame_shape", [2**40]),
        ("neural.source.trial_bins", 2**40),
        ("text.tokenizer.vocab_size", 2**40),
        ("chess.store.chunk_rows", 2**40),
        ("chess.splits.seed", 2**70),
        ("chess.train.seed", 2**64),
        ("chess.train.pool_blocks", 1.0),
        ("text.tensors.seq_len", 2**40),
        ("text.tensors.stride", 2**40),
        ("text.train.parameters", 1e6),
        ("text.stream.shuffle_windows", 2**40),
        ("neural.tensors.lags", 2**40),
        ("go.train.players_per_batch", 2**40),
        ("go.train.games_per_player", True),
        ("chess.raw", {"a": "b"}),
        *(("neural.raw", raw) for raw in ("", "x" * 5000, "a\0b", None, 5)),
        *(
            ("chess.match", match)
            for match in ("", "/**/*", "../*", "a/../../b", "**.pgn", "a**/b", "x" * 5000, "a\0b")
        ),
    ],
)
def test_a_value_that_no_run_can_have_is_refused(tmp_path: Path, path: str, value: Any) -> None:
    with pytest.raises(ParamsError, match=rf"{re.escape(path)}: "):
        load(tmp_path, changed(path, value)).section(path.partition(".")[0])


def commented() -> list[tuple[str, str]]:
    """The keys of params.yaml that have a comment, with it."""
    lines = TEXT.splitlines()
    found = []

    def walk(node: Any, above: str) -> None:
        for key, value in node.value:
            line = lines[key.start_mark.line]
            if "# " in line[key.start_mark.column :] and line.strip().startswith(key.value):
                found.append((f"{above}{key.value}", line.partition("# ")[2]))
            if isinstance(value, yaml.MappingNode):
                walk(value, f"{above}{key.value}.")

    walk(yaml.compose(TEXT), "")
    return found


def field(path: str) -> Any:
    domain, *steps = path.split(".")
    kind: Any = get_domain(domain).section
    for step in steps[:-1]:
        kind = kind.model_fields[step].annotation
    return kind.model_fields[steps[-1]]


def offered(comment: str) -> list[Any]:
    """The values that a comment offers: ``a | b: what it is; null: what that is``."""
    first, *_ = comment.split(";")
    words = [part.split()[0].rstrip(",:") for part in first.split(" | ")] if " | " in first else []
    words += re.findall(r"(?:^|; )(null|-?\d+):", comment)
    return [yaml.safe_load(word) for word in words]


@pytest.mark.parametrize(("path", "comment"), [each for each in commented() if offered(each[1])])
def test_every_value_that_the_comments_offer_is_accepted(path: str, comment: str) -> None:
    known = field(path)
    accepts = TypeAdapter(known.rebuild_annotation())
    for value in offered(comment):
        assert accepts.validate_python(value) == value
    if " | " in comment:
        assert set(offered(comment)) == set(get_args(known.annotation))


def test_the_comments_offer_values_in_every_domain() -> None:
    assert {path.partition(".")[0] for path, comment in commented() if offered(comment)} == set(GOOD)
    assert offered("reject the game | stop there | keep; a stone on a stone") == ["reject", "stop", "keep"]
    assert offered("seconds; null: the clock of the frames") == [None]


@pytest.mark.parametrize("name", list(GOOD["neural"]["source"]["names"]))
def test_each_name_may_be_null(name: str) -> None:
    accepts = TypeAdapter(field(f"neural.source.names.{name}").rebuild_annotation())
    assert accepts.validate_python(None) is None


def test_the_boards_that_the_comment_offers_are_accepted(tmp_path: Path) -> None:
    for size, good in ((6, False), (7, True), (25, True), (26, False)):
        with nullcontext() if good else pytest.raises(ParamsError, match=r"go\.filters\.sizes"):
            load(tmp_path, changed("go.filters.sizes", [size])).section("go")


@pytest.mark.parametrize("written", ["1e-3", "1E-3", "0.001", "1.0e-3"])
def test_a_number_may_be_written_without_a_point(tmp_path: Path, written: str) -> None:
    params = load(tmp_path, f"chess: {{raw: games, train: {{learning_rate: {written}}}}}")
    assert params.section("chess").train.learning_rate == 0.001


def test_a_key_that_is_given_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    twice = "chess:\n  raw: games\n  filters: {min_elo: 2000}\n  source: {}\n  filters: {rated_only: true}\n"
    with pytest.raises(ParamsError, match=r"params\.yaml: .*key 'filters' twice, in lines 3 and 5"):
        load(tmp_path, twice)
    (tmp_path / "machine.yaml").write_text("workers: 1\nmemory: 1GB\nworkers: 2\n")
    with pytest.raises(ParamsError, match=r"machine\.yaml: .*key 'workers' twice, in lines 1 and 3"):
        load_machine(tmp_path, {})


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


TOO_MUCH = {
    "nested": "[" * 5000 + "]" * 5000,
    "digits": "9" * 5000,
    "date": "2024-13-01",
    "time": ":".join(["59"] * 4000),
    "seconds": ":".join(["59"] * 4000) + ".5",
    "aliases": "{a0: &a0 [x], " + ", ".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 10}]" for i in range(1, 9)) + "}",
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_no_value_is_more_than_one_short_line(tmp_path: Path, name: str) -> None:
    def call() -> None:
        section_of("chess", "convert()", None, given_settings(["raw=a", f"filters.min_elo={TOO_MUCH[name]}"]))

    def read() -> None:
        load_params(tmp_path / "params.yaml").section("chess")

    (tmp_path / "params.yaml").write_text(f"chess: {{raw: a, filters: {{min_elo: {TOO_MUCH[name]}}}}}\n")
    for each in (call, read):
        with pytest.raises(ParamsError, match=r"^[^\n]{20,500}$"):
            each()


def test_a_setting_of_the_command_line_may_begin_with_its_domain() -> None:
    plain = given_settings(["filters.min_elo=2000", "raw=a"])
    assert given_settings(["chess.filters.min_elo=2000", "chess.raw=a"], ["chess"]) == plain
    assert given_settings(["go.filters.min_elo=2000"], ["chess"]) == {"go": {"filters": {"min_elo": 2000}}}
    with pytest.raises(ParamsError, match=r"unknown key chess\.go"):
        section_of("chess", "convert()", None, {"raw": "a", **given_settings(["go.filters.min_elo=2000"], ["chess"])})
