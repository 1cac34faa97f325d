"""A conversion says what looks like a mistake: in its notes, its figures, and beforehand in the plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import outofcore
from outofcore.conversion.estimate import estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.summary import note_doubts
from outofcore.domains.registry import get_domain
from outofcore.errors import RawInputError
from outofcore.raw.files import find_files
from tests.conversion.lines import Lines, LinesSection, convert

MOST_REJECTED = (
    "3 of 5 records are rejected, 2 of them as no_number; if that surprises you, look at the settings raw, source and "
    "filters of lines"
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("1 2\n3 4\n5 6\n6 x\n", []),
        (
            "1 2\n3 4\n5 x\n6 x\n\n",
            [MOST_REJECTED],
        ),
        ("1 2\n", ["only one line is accepted, so only one split has data"]),
    ],
)
def test_what_looks_like_a_mistake_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture, lines: str, expected: list[str]
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.txt").write_text(lines)
    figures = note_doubts(Lines(), convert(raw, tmp_path).figures)
    assert figures.get("doubts", []) == expected
    assert [line for line in capsys.readouterr().err.splitlines() if "note:" in line] == [
        f"note: lines: {each}" for each in expected
    ]
    section = LinesSection(raw=str(raw))
    files = find_files(raw, section.match, Lines.suffixes, section="lines")
    with open_executor("threads", 1) as executor:
        assert list(estimate(Lines(), section, files, executor).doubts) == expected


def test_records_that_cannot_be_read_are_said_with_examples(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.pgn").write_text("1. e4 e5 1-0\n\n" * 30 + "1. Ke2 1-0\n\n1. e4 -- 1-0\n\n1. d4 -- 1-0\n\n1. e4 *\n\n")
    figures = outofcore.convert("chess", raw, tmp_path / "a.zarr", filters={"duplicates": "keep"})
    expected = (
        "3 of 34 games cannot be read: null_move 2 (filters.illegal_move), as a.pgn at byte 432: ply 2: --; "
        "illegal_move 1 (filters.illegal_move), as a.pgn at byte 420: ply 1: "
        "illegal san: 'Ke2' in rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    )
    assert figures["doubts"] == [expected]
    assert expected in capsys.readouterr().err


GAME = '[WhiteElo "{}"]\n[BlackElo "2400"]\n\n1. e4 {}'


def test_where_all_is_rejected_the_settings_that_did_it_are_named(tmp_path: Path) -> None:
    """The three most frequent of four reasons, one of which no setting can change."""
    games = [GAME.format(elo, "1-0") for elo in (1500, 1600, 1700)] + [GAME.format(2300, "*")] * 2
    games += ['[SetUp "1"]\n\n1. e4 1-0'] * 2 + ['[Variant "Antichess"]\n\n1. e4 1-0\n']
    (tmp_path / "a.pgn").write_text("\n\n".join(games))
    places = [sum(len(game) + 2 for game in games[:number]) for number in (0, 3, 5)]
    reasons = (
        f"elo_too_low 3 (filters.min_elo), as a.pgn at byte {places[0]}: White 1500, Black 2400; "
        f"no_result 2 (filters.unfinished), as a.pgn at byte {places[1]}; "
        f"invalid_position 2, as a.pgn at byte {places[2]}: SetUp 1 without FEN: from which position is not known; all"
    )
    told = f"none of the 8 records in 1 files was accepted, so there is no store: {reasons}"
    with pytest.raises(RawInputError, match=re.escape(told)):
        outofcore.convert("chess", tmp_path / "a.pgn", tmp_path / "a.zarr", filters={"min_elo": 2000})


@pytest.mark.parametrize("name", ["chess", "go", "text", "neural"])
def test_settings_that_decide_about_a_reject_are_keys_of_the_domain(name: str) -> None:
    domain = get_domain(name)
    for setting in domain.rejecting:
        section, _, key = re.split("[, ]", setting)[0].rpartition(".")
        assert key in domain.section.model_fields[section].annotation.model_fields, setting
