from __future__ import annotations

import io

import chess.pgn
import pytest
from pydantic import ValidationError

from outofcore.domains.chess import DOMAIN
from outofcore.domains.chess.codes import CHESS960, OTHER_VARIANT, STANDARD
from outofcore.domains.chess.pgn.classes import termination_class, time_class, variant_code
from tests.domains.chess.test_convert import convert, moves_of, reasons

MOVES = "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 1-0"


def game(**tags: str) -> str:
    return "".join(f'[{name} "{value}"]\n' for name, value in tags.items()) + f"\n{MOVES}\n\n"


def one(text: str, **filters: object) -> list[str]:
    """Reasons of the single game of a text under these filters; none if it is kept."""
    return reasons(convert(text, filters=filters))


ELO = [
    (2000, 2100, {}, ""),
    (2000, 2100, {"min_elo": 2000}, ""),
    (2000, 2100, {"min_elo": 2001}, "elo_too_low"),
    (2000, 2100, {"max_elo": 2100}, ""),
    (2000, 2100, {"max_elo": 2099}, "elo_too_high"),
    ("", 2100, {}, ""),
    ("", 2100, {"min_elo": 2000}, "elo_unknown"),
    ("?", 2100, {"min_elo": 2000, "unknown_elo": "keep"}, ""),
    ("-", 1000, {"min_elo": 2000, "unknown_elo": "keep"}, "elo_too_low"),
    ("2500?", 2400, {"max_elo": 3000}, ""),
    ("2500?", 2400, {"max_elo": 2450}, "elo_too_high"),
    ("2500??", 2400, {"max_elo": 3000}, "elo_unknown"),
    ("2500.0", "2400.", {"min_elo": 2400, "max_elo": 2500}, ""),
    ("2500.5", 2400, {"max_elo": 3000}, "elo_unknown"),
    (" 2500 ", 2400, {"min_elo": 2400}, ""),
    (1500, 1600, {"elo_of": "mover", "min_elo": 2000}, "elo_too_low"),
    (2500, "", {"elo_of": "mover", "max_elo": 2000}, "elo_unknown"),
    (2500, 2600, {"elo_of": "mover", "max_elo": 2000}, "elo_too_high"),
]
ECO = {"tags": {"ECO": ["B2*", "C0?"], "WhiteTitle": ["GM", "IM"]}}
GAMES = [
    *(({"WhiteElo": white, "BlackElo": black}, filters, reason) for white, black, filters, reason in ELO),
    ({}, {"min_plies": 6}, ""),
    ({}, {"min_plies": 7}, "too_short"),
    ({}, {"skip_plies": 6}, "no_positions"),
    ({"Event": "Rated Blitz game"}, {"rated_only": True}, ""),
    ({"Event": "Casual Blitz game"}, {"rated_only": True}, "not_rated"),
    ({"Event": "Arena", "WhiteRatingDiff": "+3"}, {"rated_only": True}, ""),
    ({"TimeControl": "180+2"}, {"time_classes": ["blitz"]}, ""),
    ({"TimeControl": "60+0"}, {"time_classes": ["blitz", "rapid"]}, "time_class"),
    ({}, {"time_classes": ["blitz"]}, "time_class"),
    ({}, {"time_classes": ["unknown"]}, ""),
    ({"Termination": "Time forfeit"}, {"terminations": ["normal"]}, "termination"),
    ({"Termination": "A won by checkmate"}, {"terminations": ["normal"]}, ""),
    ({"BlackTitle": "BOT"}, {"bots": "drop"}, "bot"),
    ({"BlackTitle": "BOT"}, {}, ""),
    ({"BlackTitle": "GM"}, {"bots": "drop"}, ""),
    ({"Variant": "Chess960"}, {"variants": ["standard"]}, "variant"),
    ({}, {"variants": ["chess960"]}, "variant"),
    ({"ECO": "B20", "WhiteTitle": "GM"}, ECO, ""),
    ({"ECO": "C05", "WhiteTitle": "IM"}, ECO, ""),
    ({"ECO": "C20", "WhiteTitle": "GM"}, ECO, "tag"),
    ({"ECO": "b20", "WhiteTitle": "GM"}, ECO, "tag"),
    ({"ECO": "B20"}, ECO, "tag"),
    ({}, {"tags": {"Annotator": [""]}}, ""),
    ({"Annotator": "x"}, {"tags": {"Annotator": [""]}}, "tag"),
    ({"Event": "Cup [A]"}, {"tags": {"Event": ["Cup [A]"]}}, ""),
    ({"Event": "Cup A"}, {"tags": {"Event": ["Cup [A]"]}}, "tag"),
]


@pytest.mark.parametrize(("tags", "filters", "reason"), GAMES, ids=lambda value: str(value) or "kept")
def test_a_game_is_kept_or_has_the_reason_of_its_filter(tags, filters, reason):
    assert one(game(**tags), **filters) == [reason] * bool(reason)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, 0),
        ({"unknown_elo": "keep"}, 0),
        ({"min_elo": 2000}, 0),
        ({"min_elo": 2000, "unknown_elo": "keep"}, 2),
        ({"max_elo": 3000, "unknown_elo": "keep", "elo_of": "mover"}, 3),
    ],
)
def test_games_that_bounds_of_elo_let_through_are_counted(filters, expected):
    games = [game(WhiteElo=white, BlackElo=black) for white, black in ((2000, ""), (2500, 2500), ("?", 1900), ("", ""))]
    result = convert("".join(games), filters=filters)
    assert result.stored_counts["elo_unknown_kept"].shape == (len(result.keys),)
    assert result.stored_counts["elo_unknown_kept"].sum() == expected


@pytest.mark.parametrize(
    ("elo", "filters", "plies"),
    [
        ((2000, 2100), {"min_elo": 2050}, [1, 3, 5]),
        ((2000, 2100), {"max_elo": 2050}, [0, 2, 4]),
        ((2000, 2100), {"min_elo": 1900}, [0, 1, 2, 3, 4, 5]),
        (("", 2100), {"min_elo": 1900}, [1, 3, 5]),
        (("", 2100), {"min_elo": 1900, "unknown_elo": "keep"}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_elo_of_the_mover_chooses_positions(elo, filters, plies):
    text = game(WhiteElo=elo[0], BlackElo=elo[1])
    result = convert(text, filters={"elo_of": "mover", **filters})
    assert result.rows["ply"].tolist() == plies
    assert result.counts["positions_elo"] == 6 - len(plies)
    assert result.sequences["length"].tolist() == [len(plies)]
    assert result.sequences["plies"].tolist() == [6]


def test_a_game_whose_only_mover_of_interest_never_moves_has_no_positions():
    text = '[WhiteElo "1500"]\n[BlackElo "2500"]\n\n1. e4 1-0'
    assert one(text, elo_of="mover", min_elo=2000) == ["no_positions"]


def test_early_plies_are_left_out():
    result = convert(game() + "1. d4 d5 2. c4 0-1", filters={"skip_plies": 2})
    assert result.rows["ply"].tolist() == [2, 3, 4, 5, 2]
    assert moves_of(result) == ["g1f3", "b8c6", "f1b5", "a7a6", "c2c4"]
    assert result.counts["positions_skipped"] == 4


def test_positions_of_a_mover_who_is_short_of_time_are_left_out():
    clocks = ("0:01:00", "0:00:31", "0:00:30.0", "0:00:29.9", "", "0:00:05")
    moves = ("e4", "e5", "Nf3", "Nc6", "Bb5", "a6")
    words = [f"{move} {{[%clk {clock}]}}" if clock else move for move, clock in zip(moves, clocks, strict=True)]
    text = f"\n{' '.join(words)} 1-0\n\n"
    played = chess.pgn.read_game(io.StringIO(text)).mainline()
    expected = [ply for ply, node in enumerate(played) if (node.clock() or 0) >= 30]
    result = convert(text, filters={"min_clock": 30})
    assert result.rows["ply"].tolist() == expected == [0, 1, 2]
    assert result.counts == {"positions_skipped": 0, "positions_elo": 0, "positions_clock": 3, "notes_unread": 0}
    assert convert(text, filters={"min_clock": 30, "skip_plies": 2}).counts["positions_clock"] == 3
    assert one(text, min_clock=61) == ["no_positions"]
    assert "positions_clock" not in convert(text).counts


def test_each_game_has_one_reason_and_all_are_counted():
    texts = [
        game(WhiteElo="1000", BlackElo="2500"),
        game(WhiteElo="2500", BlackElo="2500"),
        game(Variant="Horde", WhiteElo="1", BlackElo="1"),
        "1. e4 e5 *\n\n",
    ]
    result = convert("".join(texts), filters={"min_elo": 2000})
    assert reasons(result) == ["elo_too_low", "variant", "no_result"]
    assert result.rejects[0].detail == "White 1000, Black 2500"


def test_a_game_rejected_by_a_tag_says_which():
    tags = {"ECO": ["B2*"], "Site": ["here"]}
    for text, detail in (
        (game(ECO="B20", Site='\\"there\\"'), "Site '\"there\"'"),
        (game(ECO="C20", Site="there"), "ECO 'C20'"),
        (game(Site="here"), "ECO ''"),
    ):
        (reject,) = convert(text, filters={"tags": tags}).rejects
        assert (reject.reason, reject.detail) == ("tag", detail)


def test_tags_are_columns_of_their_games():
    first, second = (
        game(ECO="B20", WhiteTitle="GM", UTCTime="1:2"),
        game(Site='\\"here\\"', ECO="C00").replace("a6", "d6"),
    )
    result = convert(first + second, source={"tags": ["ECO", "WhiteTitle", "Site", "UTCTime", "ECOUrl"]})
    found = {name: result.sequences[name].tolist() for name in ("eco", "white_title", "site", "utc_time", "eco_url")}
    assert found == {
        "eco": ["B20", "C00"],
        "white_title": ["GM", ""],
        "site": ["", '"here"'],
        "utc_time": ["1:2", ""],
        "eco_url": ["", ""],
    }
    (schema,) = DOMAIN.schemas(DOMAIN.section(raw="-", source={"tags": ["ECO"]}), []).values()
    assert [field.name for field in schema.sequences][-1] == "eco"
    for wrong in ({"tags": ["Date"]}, {"tags": ["ECO", "Eco"]}, {"tags": ["E C O"]}):
        with pytest.raises(ValidationError, match=r"a column|match pattern"):
            DOMAIN.section(raw="-", source=wrong)


DATES = {
    20240105: ["2024.1.5", "2024.01.05", "2024-1-05"],
    20240000: ["2024.?.??", "2024"],
    0: ["2024.1", "2024.001.05", "24.1.5", "????.??.??", "1899-12-30", "x"],
    18991230: ["1899.12.30"],
    18991231: ["1899-12-31"],
    20200000: ["2020.13.45", "2020.??.15"],  # no month or day of the calendar is unknown
    20200200: ["2020.02.31"],
    20190200: ["2019.02.29"],
    20200229: ["2020.02.29"],
    19970500: ["1997.5.?"],
    229: ["????.02.29"],
    101: ["199?.01.01"],
}


def cases(table):
    """Pairs of a text and what it is."""
    return [(text, expected) for expected, texts in table.items() for text in texts]


@pytest.mark.parametrize(("date", "expected"), cases(DATES))
def test_dates(date, expected):
    assert convert(game(Date=date)).sequences["date"].tolist() == [expected]


@pytest.mark.parametrize(
    ("control", "clock", "expected"),
    [
        *[("90+30", "1:30:56", "classical"), ("15+10", "0:15:10", "rapid"), ("3+2", "0:03:02", "blitz")],
        *[("40/90+30", "1:31:00", "classical"), ("90+30", "0:01:58", "rapid"), ("90+30", "3:00:00", "unknown")],
        *[("0+1", "0:00:03", "bullet"), ("900+10", "0:15:20", "rapid"), ("600", "0:09:59", "rapid")],
        ("?", "", "unknown"),
    ],
)
@pytest.mark.parametrize("move", ["e4", "Pe4"], ids=["strict", "odd"])
def test_a_base_far_below_the_first_clock_counts_minutes(control, clock, expected, move):
    text = f'[TimeControl "{control}"]\n\n1. {move} {{[%clk {clock}]}} e5 1-0'
    every = ["bullet", "blitz", "rapid", "classical", "correspondence", "unknown"]
    assert [each for each in every if not one(text, time_classes=[each])] == [expected]


TIMES = {
    "bullet": ["60+0", "60", "179", "120+1", "0+1", "179.9", "10+0.1", "10+0.05", "40/60.5:30.5+0.1", "0/60"],
    "blitz": ["180", "180+2", "120+1.5", "*180"],
    "rapid": ["300+5", "600", "1/30"],
    "classical": ["1500+25", "40/7200:3600", "40/7200:20/3600:900+30", "2700+4.5"],
    "correspondence": ["1/86400", "-"],
    "unknown": ["?", "", "90 minutes for the first 40 moves", "\u0661\u0660", "10+", "10.+1", "1.5.5"],
}
TERMINATIONS = {
    "normal": ["Normal", "X won by resignation"],
    "time forfeit": ["Time forfeit", "time forfeit", "X won on time", "drawn by timeout vs insufficient material"],
    "abandoned": ["X won - game abandoned", "Abandoned"],
    "adjudication": ["adjudication"],
    "rules infraction": ["Rules infraction"],
    "other": ["ran out of coffee"],
    "unknown": [""],
}
VARIANTS = {
    STANDARD: ["", "Standard", "From Position"],
    CHESS960: ["chess960", "fischerandom", "Chess 960", "Fischer Random", "Fischerrandom"],
    OTHER_VARIANT: ["Crazyhouse", "Antichess", "Three-check"],
}


@pytest.mark.parametrize(
    ("classify", "text", "expected"),
    [
        (classify, text, expected)
        for classify, table in ((time_class, TIMES), (termination_class, TERMINATIONS), (variant_code, VARIANTS))
        for text, expected in cases(table)
    ],
)
def test_classes_of_tags(classify, text, expected):
    assert classify(text) == expected


@pytest.mark.parametrize(
    ("event", "rated"),
    [
        *((f"{site} rated {speed} game", True) for site in ("FICS", "ICC 3 0") for speed in ("blitz", "standard")),
        *(("Rated Blitz game", True), ("rated", True), ("FICS unrated blitz game", False), ("Casual game", False)),
        *(("Not rated match", False), ("non-rated open", False), ("top-rated players", False), ("Narrated", False)),
    ],
)
def test_the_event_says_that_a_game_was_rated(event, rated):
    text = f'[Event "{event}"]\n\n1. e4 e5 1-0\n\n'
    assert one(text, rated_only=True) == ([] if rated else ["not_rated"])


def test_the_tag_counts_where_no_result_follows_the_moves():
    text = '[Event "a"]\n[Result "{}"]\n\n1. e4 e5\n\n'
    assert one(text.format("0-1")) == ["unterminated"]
    results = convert(text.format("0-1") + text.format("1/2-1/2"), filters={"unterminated": "tag"}).rows["result"]
    assert results.tolist() == [-1, -1, 0, 0]
    for unknown in ("*", "?", ""):
        assert one(text.format(unknown), unterminated="tag") == ["unterminated"]


@pytest.mark.parametrize("dash", ["-", "\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2212"])
@pytest.mark.parametrize("codec", ["utf-8", "cp1252"])
def test_results_have_any_dash_and_half(dash, codec):
    words = {f"1{dash}0": 1, f"0{dash}1": -1, f"1/2{dash}1/2": 0, f"\u00bd{dash}\u00bd": 0}
    for word, result in words.items():
        for tag, marker in ((word, word), (word, "*"), ("*", word)):
            try:
                text = f'[Result "{tag}"]\n\n1. e4 e5 {marker}\n\n[Event "b"]\n\n1. d4 0-1'.encode(codec)
            except UnicodeEncodeError:
                return
            assert convert(text).rows["result"].tolist() == [result, result, -1]
