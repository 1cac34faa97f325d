"""Units -> rows, sequences, keys and rejects."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from outofcore.domains.go import DOMAIN
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.play import oracle
from outofcore.domains.go.sgf.encoding import NameRule
from outofcore.domains.go.sgf.pieces import Ending, Games
from outofcore.domains.go.source import LONGEST_GAME
from outofcore.raw.files import find_files
from outofcore.raw.unit import KEY_BYTES, AuditRate
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import text

GAME = text("Baa", "Wbb", "Bcc", root="PB[anna]PW[berta]BR[3d]WR[1k]KM[650]RE[B+2.5]DT[2020-02-03]RU[AGA]")


def test_columns_of_a_game(convert_text: ConvertText) -> None:
    told = convert_text(GAME).sequences
    expected = {
        "length": 3,
        "black": "anna",
        "white": "berta",
        "black_bytes": "anna",
        "name_rule": NameRule.ASCII,
        "black_rank": 3,
        "white_rank": 0,
        "size": 9,
        "komi": 6.5,
        "komi_raw": "650",
        "winner": 1,
        "margin": 2.5,
        "date": 20200203,
        "first_player": 0,
        "alternating": True,
        "player_of_file": "games",
        "source": "games.sgf",
        "offset": 0,
    }
    assert {name: told[name][0] for name in expected} == expected


def test_the_bytes_of_a_name_are_kept(convert_text: ConvertText) -> None:
    data = b"(;SZ[9]PB[\xe6\x9f\xaf\xe6?\x81]PW[a\\]b];B[aa])"
    told = convert_text(data).sequences
    assert told["black_bytes"][0].encode("latin-1") == b"\xe6\x9f\xaf\xe6?\x81"
    assert told["black"][0] == "柯�"
    assert (told["white_bytes"][0], told["white"][0]) == ("a\\]b", "a]b")


@pytest.mark.parametrize("name", [b"\xff\xfe\x80", b"\xa4\xa4\xff"])
def test_a_name_that_cannot_be_decoded_costs_no_rank(convert_text: ConvertText, name: bytes) -> None:
    ranks = ("9段".encode(), "3級".encode())
    told = convert_text(b"(;SZ[9]PB[%s]PW[x]BR[%s]WR[%s];B[aa])" % (name, *ranks)).sequences
    assert (told["black_rank"].tolist(), told["white_rank"].tolist()) == ([9], [-2])
    assert told["name_rule"].tolist() == [NameRule.LATIN1]
    assert told["black_bytes"][0].encode("latin-1") == name


def test_equal_games_have_equal_keys(convert_text: ConvertText) -> None:
    same = [
        text("Baa", "Wbb", "B"),
        text("Baa", "Wbb", "Btt", root="PB[other]KM[7]RE[W+R]"),
        b"(;SZ[9]C[comments];B[aa](;W[bb]C[and];B[])(;W[cc]))",
        text("Baa", "Wbb", "B", root="AE[ee]"),
    ]
    others = [
        text("Baa", "Wbb"),
        text("Baa", "Wbb", "B", size=19),
        text("Baa", "Wbb", "W"),
        text("Baa", "Bbb", "B"),
        text("Baa", "Wbb", "B", root="AW[ee]"),
        text("Baa", "Wbb", "B", "Wcc"),
    ]
    converted = convert_text(b"\n".join(same + others))
    assert converted.reasons == []
    keys = converted.keys
    assert all(len(key) == KEY_BYTES for key in keys)
    # Setup that changes nothing is still setup: a position was set, and counts as one.
    assert len({*keys[:3]}) == 1
    assert len({*keys[len(same) :], keys[0]}) == len(others) + 1


def test_keys_do_not_depend_on_other_settings(convert_text: ConvertText) -> None:
    small = convert_text(GAME, filters={"sizes": [9]})
    large = convert_text(GAME, filters={"sizes": [9, 25], "illegal": "stop"})
    assert small.keys == large.keys
    assert small.rows["game"].tolist() == [int.from_bytes(small.keys[0][:8], "little", signed=True)] * 3


def test_a_game_that_was_stopped_has_the_key_of_what_is_kept(convert_text: ConvertText) -> None:
    stopped = convert_text(text("Baa", "Wbb", "Baa"), filters={"illegal": "stop"})
    assert stopped.keys == convert_text(text("Baa", "Wbb")).keys


@pytest.mark.parametrize(
    ("game", "reason", "filters"),
    [
        (b"(;SZ[9];B[aa]", "", {}),
        (b"(;SZ[9];B[aa]C[", "unterminated_value", {}),
        (b"(;SZ[9];B[a])", "bad_point", {}),
        (b"(;SZ[9];B[aa][bb])", "ambiguous_node", {}),
        (b"(;SZ[9])", "too_short", {}),
        (text("Baa", "Wbb"), "too_short", {"min_moves": 3}),
        (text("Baa", root="BR[2d]"), "", {"min_rank": "1d", "unknown_rank": "keep"}),
        (text("Baa", root="BR[1p]WR[9p]"), "", {"min_rank": "9d"}),
        (text("Baa", root="BR[3k]"), "rank", {"min_rank": "1d", "unknown_rank": "keep"}),
    ],
)
def test_reasons(convert_text: ConvertText, game: bytes, reason: str, filters: dict[str, object]) -> None:
    converted = convert_text(game, filters=filters)
    assert converted.reasons == ([reason] if reason else [])
    assert converted.found == 1


@pytest.mark.parametrize(("unknown", "expected"), [("keep", 2), ("drop", 0)])
def test_games_that_a_lowest_rank_lets_through_are_counted(
    convert_text: ConvertText, unknown: str, expected: int
) -> None:
    ranks = ("BR[2d]", "", "BR[2d]WR[3d]", "BR[3k]")
    games = b"".join(text(f"Ba{letter}", root=rank) for letter, rank in zip("abcd", ranks, strict=True))
    converted = convert_text(games, filters={"min_rank": "1d", "unknown_rank": unknown})
    assert converted.counts["rank_unknown_kept"] == expected
    assert convert_text(games).counts["rank_unknown_kept"] == 0


def test_a_long_game_is_refused(convert_text: ConvertText) -> None:
    long, short = (b"(;SZ[9]C[" + b"x" * (LONGEST_GAME + more) + b"];B[bb])" for more in (1, -20))
    assert convert_text(long + GAME + short).reasons == ["too_long"]


def test_a_difference_is_told(convert_text: ConvertText, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "read_events", lambda *_: [("b", (8, 0)), ("b", (7, 1))])
    converted = convert_text(b"xx\n" + GAME)
    assert converted.audited == len(converted.differences) == 1
    assert converted.differences[0].startswith("games.sgf, game at byte 3, move 1: sgfmill: Black plays 20")


BRANCHED = b"(;GM[1]SZ[19]PB[a]PW[b];B[pd](;PW[c]W[dp];B[pp];W[dd])(;W[dd];B[qq]))"


def test_variations_with_properties_of_a_root_are_no_games(tmp_path: Path, convert_text: ConvertText) -> None:
    lines = BRANCHED + b"\n" + BRANCHED.replace(b"(;PW", b"\n(;GM[1]SZ[9]PW").replace(b"dd", b"ee")
    for name, data in (("games.sgf", lines), ("games.sgf.zst", zstandard.compress(lines))):
        for block in (17, 1 << 20):
            converted = convert_text({name: data}, block=block)
            assert converted.found == 2
            assert converted.reasons == []
            at = {letter: place for place, letter in enumerate("abcdefghijklmnopqrs")}
            points = ("pd", "dp", "pp", "dd", "pd", "dp", "pp", "ee")
            assert converted.rows["move"].tolist() == [at[point[1]] * 19 + at[point[0]] for point in points]
            assert converted.sequences["white"].tolist() == ["b", "b"]
            assert converted.sequences["size"].tolist() == [19, 19]
            assert converted.audited == 2
            assert not converted.differences
        (tmp_path / "raw" / name).unlink()


def test_the_audit_sees_that_a_game_was_ended_too_soon(
    convert_text: ConvertText, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_games(text: bytes, *_: Any, final: bool, **__: Any) -> Games:
        return Games([(0, len(data) - 1, Ending.CLOSED)] if final else [], len(text) if final else 0, 0, skipping=False)

    data = b"(;GM[1]SZ[9];B[aa](;W[bb];B[cc]))"
    monkeypatch.setattr("outofcore.domains.go.sgf.pieces.find_games", find_games)
    told = "games.sgf, game at byte 0, sgfmill does not find the end where the engine does"
    assert convert_text(data).differences == [told]


def test_unusual_games_are_audited_at_their_own_rate(tmp_path: Path) -> None:
    usual = [text("Baa", "Wbb", f"B{point}", size=19) for point in ("cc", "dd", "ee")]
    handicap, small = text("Waa", size=19, root="HA[2]AB[dd][pp]"), text("Baa")
    (tmp_path / "a.sgf").write_bytes(b"\n".join([*usual, handicap, small]))
    section = GoSection.model_validate({"raw": str(tmp_path), "filters": {"sizes": [9, 19]}})
    (unit,) = DOMAIN.units(find_files(tmp_path, "**/*", DOMAIN.suffixes, section="go"), section)
    result = DOMAIN.converter(section, AuditRate(2**62, 1))(unit)
    assert len(result.keys) == 5
    assert result.unusual == result.audited == 2


def test_draw(convert_text: ConvertText) -> None:
    shape = ["Bba", "Wca", "Bab", "Wdb", "Bbc", "Wcc", "Bcb", "Wbb", "Bee"]
    rows = convert_text(text(*shape)).rows
    last = DOMAIN.draw({name: array[-1:] for name, array in rows.items()})
    lines = last.splitlines()
    assert lines[0].split() == ["9", ".", "X", "O", *"......"]
    assert lines[4] == " 5  .  .  .  . (.) .  .  .  ."
    assert lines[-1] == "move 9: Black plays E5, C8 is forbidden by ko"
    assert DOMAIN.draw(convert_text(text("W")).rows).endswith("move 1: White passes")


def test_settings_are_checked() -> None:
    for wrong in (
        {"sizes": []},
        {"sizes": [5]},
        {"sizes": [26]},
        {"min_rank": "10d"},
        {"illegal": "keep"},
        {"typo": 1},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            GoSection.model_validate({"raw": "x", "filters": wrong})
    section = GoSection.model_validate({"raw": "x", "filters": {"sizes": [19, 9, 19]}})
    assert section.filters.sizes == (9, 19)
    converter = DOMAIN.converter(section, AuditRate())
    assert pickle.loads(pickle.dumps(converter)) == converter


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        (b"(;SZ[9]AB" + b"[aa]" * 32_768 + b";W[bb])", "too_many_stones"),
        (b"(;SZ[9]" + b"AB[aa:ii]" * 500 + b";W[bb])", "too_many_stones"),
        (b"(;SZ[" + b"9" * 5000 + b"];B[aa])", "unreadable_size"),
        (b"(;SZ[9]HA[" + b"9" * 5000 + b"];B[aa])", ""),
        (b"(;SZ[9]KM[" + b"9" * 5000 + b"]RE[B+" + b"9" * 5000 + b"];B[aa])", ""),
        (b"(;SZ[9]AB[]AW[ ];B[aa])", ""),
        (b"(;SZ[9x9]DT[9999-99-99];B[aa])", ""),
    ],
)
def test_no_number_is_too_large(convert_text: ConvertText, game: bytes, reason: str) -> None:
    converted = convert_text(game + GAME)
    assert converted.reasons == ([reason] if reason else [])
    assert converted.found == 2
    assert converted.differences == []


def test_files_of_self_play_are_read_and_their_owner_has_no_ending(convert_text: ConvertText) -> None:
    games = text("Bcc", "Wgg") + b"\n" + text("Bcd", "Wgg")
    converted = convert_text({"black/one.sgfs": games, "two.SGF": text("Bce", "Wgg")})
    assert converted.sequences["player_of_file"].tolist() == ["black/one", "black/one", "two"]


def test_results_that_name_no_winner_are_counted(convert_text: ConvertText) -> None:
    results = ("B+-3.5", "W+0", "Left unfinished", "?", "", "B+R", "White resigns.")
    games = [text("B" + "cdefghi"[number] + "c", "Wgg", root=f"RE[{re}]") for number, re in enumerate(results)]
    converted = convert_text(b"\n".join(games))
    assert converted.counts["result_unreadable"] == 3
    assert converted.sequences["winner"].tolist() == [0, 0, 0, 0, 0, 1, 1]


def test_a_button_changes_which_margins_contradict_the_komi(convert_text: ConvertText) -> None:
    rules = "koSIMPLEscoreAREAtaxNONEsui0button1"
    games = [text("Bcc", "Wgg", root=f"KM[{komi}]RE[B+0.5]RU[{rules}]") for komi in ("7", "50", "7.5")]
    converted = convert_text(b"\n".join(games), filters={"duplicates": "keep"})
    np.testing.assert_array_equal(converted.sequences["komi"], [7, 50, np.nan])
    assert converted.counts["komi_contradicted"] == 1
