"""Splits follow content, keep their shares, and change with the seed."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

import outofcore
from outofcore.domains.sections import SplitSection
from outofcore.domains.splits import SPLITS, UNDATED, assign, splits_of
from outofcore.errors import ParamsError
from outofcore.params import section_of
from outofcore.raw.unit import Unit, UnitResult

KEYS = np.random.default_rng(1).integers(0, 256, (20_000, 16)).astype(np.uint8)


def test_shares_are_kept_and_equal_keys_go_together() -> None:
    keys = np.concatenate([KEYS[:10_000]] * 2)
    split = assign(keys, SplitSection(val=0.2, test=0.1, seed=3))
    assert (split[:10_000] == split[10_000:]).all()
    shares = np.bincount(split, minlength=3) / len(split)
    np.testing.assert_allclose(shares, [0.7, 0.2, 0.1], atol=0.015)
    assert SPLITS == ("train", "val", "test")


def test_another_seed_chooses_others() -> None:
    first, second = (assign(KEYS, SplitSection(val=0.5, test=0, seed=seed)) == 1 for seed in (0, 1))
    assert abs(np.mean(first & second) - 0.25) < 0.015


def test_the_split_of_a_key_is_settled_for_ever() -> None:
    """Stores of every release agree. The first eight bytes decide, the most significant first, with the seed."""
    section = SplitSection(val=0.3, test=0.3, seed=7)
    known = ["test", "test", "val", "val", "train", "train", "test", "test"]
    keys = np.arange(8 * 16, dtype=np.uint8).reshape(8, 16)
    assert [SPLITS[split] for split in assign(keys, section)] == known
    others = keys.copy()
    others[:, 8:] = 255 - others[:, 8:]
    assert (assign(others, section) == assign(keys, section)).all()
    for byte in range(8):
        many = np.tile(keys, (32, 1))
        many[:, byte] = np.arange(len(many))
        assert len(set(assign(many, section).tolist())) == 3, f"byte {byte} of the key does not count"


def places(store: Path, column: str) -> dict[str, dict[str, int]]:
    """How many sequences of each value of a column are in each split."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    opened = outofcore.open_store(store)
    for split in SPLITS:
        for value in opened.sequences(split)[column].read().tolist():
            found[str(value)][split] = found[str(value)].get(split, 0) + 1
    return found


def write_texts(folder: Path, names: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        lines = [json.dumps({"text": f"{name} has a line {number}"}) for number in range(5)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))


def test_by_file_all_documents_of_a_file_are_in_one_split(tmp_path: Path) -> None:
    """And in the same one when other files are added."""
    names = [f"author{number}" for number in range(40)]
    found = []
    for count in (20, 40):
        write_texts(tmp_path / "raw", names[:count])
        store = tmp_path / f"{count}.zarr"
        splits = {"by": "file", "val": 0.2, "test": 0.2}
        outofcore.convert("text", tmp_path / "raw", store, splits=splits, tokenizer={"vocab_size": 300})
        files = outofcore.open_store(store).sources["name"].read().tolist()
        by_file = {files[int(source)]: splits for source, splits in places(store, "source").items()}
        assert all(list(splits.values()) == [5] for splits in by_file.values())
        found.append({name: next(iter(splits)) for name, splits in by_file.items()})
    few, all_of_them = found
    assert few.items() <= all_of_them.items()
    assert set(all_of_them.values()) == {"train", "val", "test"}


def test_by_a_column_all_games_of_a_player_are_in_one_split(tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrs"
    players = [f"player {number}" for number in range(30)]
    games = [
        f"(;GM[1]SZ[19]PB[{player}]PW[x];B[{letters[place % 19]}{letters[place // 19]}];W[{other}s])"
        for place, player in enumerate(players)
        for other in "abcd"
    ]
    (tmp_path / "games.sgf").write_text("\n".join(games))
    splits = {"by": "black", "val": 0.3, "test": 0.2}
    outofcore.convert("go", tmp_path / "games.sgf", tmp_path / "go.zarr", splits=splits)
    found = places(tmp_path / "go.zarr", "black")
    assert set(found) == set(players)
    assert all(list(splits.values()) == [4] for splits in found.values())
    assert {split for splits in found.values() for split in splits} == {"train", "val", "test"}


def test_by_date_later_games_are_held_out_and_undated_ones_are_listed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    days = [
        "2018.12.31",
        "2019.01.01",
        "2019.06.30",
        "2019.07.01",
        "2020.02.03",
        "2020.??.??",
        "2018.??.??",
        "2019.03.??",
    ]
    undated = ["2019.??.??", "????.??.??", "????.05.17", "20??.05.17", "2019.1?.15", "2019.13.01", ""]
    moves = ["e4", "d4", "c4", "Nf3", "b3", "g3", "f4", "a3", "a4", "b4", "c3", "d3", "e3", "h3", "h4"]
    games = [f'[Date "{day}"]\n\n1. {move} 1-0\n\n' for day, move in zip(days + undated, moves, strict=True)]
    (tmp_path / "games.pgn").write_text("".join(games))
    splits = {"by": "date", "val_from": "2019-01-01", "test_from": "2019-07-01"}
    figures = outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "chess.zarr", splits=splits)
    assert figures["sequences"] == {"train": 2, "val": 3, "test": 3}
    assert figures["rejected"] == {"undated": 7}
    found = {day: next(iter(split)) for day, split in places(tmp_path / "chess.zarr", "date").items()}
    assert found == {
        **dict.fromkeys(("20181231", "20180000"), "train"),
        **dict.fromkeys(("20190101", "20190630", "20190300"), "val"),
        **dict.fromkeys(("20190701", "20200203", "20200000"), "test"),
    }
    with (tmp_path / "chess.zarr.rejects.csv").open() as lines:
        assert [line["reason"] for line in csv.DictReader(lines)] == ["undated"] * 7
    assert "note: chess.splits" not in capfd.readouterr().err
    splits = {"by": "date", "test_from": "2030-01-01"}
    outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "later.zarr", splits=splits)
    assert "note: chess.splits: nothing is in test, split by date\n" in capfd.readouterr().err


def test_the_first_day_of_a_split_belongs_to_it_and_a_part_of_a_date_counts_where_it_decides() -> None:
    section = SplitSection(by="date", val_from=date(2019, 2, 1), test_from=date(2019, 7, 15))

    def split_of(day: date) -> int:
        return SPLITS.index("test" if day >= date(2019, 7, 15) else "val" if day >= date(2019, 2, 1) else "train")

    days = [date(2018, 12, 1) + timedelta(number) for number in range(420)]
    known = {day.year * 10_000 + day.month * 100 + day.day: {split_of(day)} for day in days}
    for day in days:
        known.setdefault(day.year * 10_000 + day.month * 100, set()).add(split_of(day))
        if day.year == 2019:
            known.setdefault(20190000, set()).add(split_of(day))
    known |= {20180000: {0}, 20300000: {2}, 0: {0, 1}, 1231: {0, 1}}
    dates = np.array([*known], np.int64)
    result = UnitResult(found=len(dates), rows={}, sequences={"date": dates}, keys=np.zeros((len(dates), 16), np.uint8))
    expected = [next(iter(splits)) if len(splits) == 1 else UNDATED for splits in known.values()]
    assert splits_of(Unit(source=0, name="a", offset=0), result, section).tolist() == expected


def test_a_dated_game_is_no_duplicate_of_one_that_is_not_stored(tmp_path: Path) -> None:
    game = "(;GM[1]SZ[19]{};B[aa];W[bb])"
    (tmp_path / "games.sgf").write_text(game.format("") + game.format("DT[2018-01-01]"))
    splits = {"by": "date", "test_from": "2019-01-01"}
    figures = outofcore.convert("go", tmp_path / "games.sgf", tmp_path / "go.zarr", splits=splits)
    assert figures["rejected"] == {"undated": 1}
    assert figures["sequences"] == {"train": 1, "val": 0, "test": 0}


def test_games_without_a_name_belong_to_no_group(tmp_path: Path) -> None:
    points = [f"{one}{two}" for one in "abcdefghij" for two in "abcdefghij"]
    (tmp_path / "games.sgf").write_text("".join(f"(;GM[1]SZ[19];B[{point}];W[ss])" for point in points))
    splits = {"by": "black", "val": 0.3, "test": 0.2}
    figures = outofcore.convert("go", tmp_path / "games.sgf", tmp_path / "go.zarr", splits=splits)
    assert min(figures["sequences"].values()) > 5


@pytest.mark.parametrize(
    ("domain", "settings", "said"),
    [
        ("chess", {"splits": {"by": "date"}}, "val_from and test_from go with by: date, which needs one of them"),
        ("chess", {"splits": {"val_from": "2020-01-01"}}, "val_from and test_from go with by: date"),
        (
            "chess",
            {"splits": {"by": "date", "val_from": "2020-01-01", "test_from": "2019-01-01"}},
            "expected val_from before test_from, got 2020-01-01 and 2019-01-01",
        ),
        (
            "chess",
            {"splits": {"by": "date", "val_from": 20190101}},
            "expected a day such as 2020-01-31, got the number",
        ),
        ("text", {"splits": {"by": "file"}, "filters": {"duplicates": "keep"}}, "equal records in several splits"),
        ("neural", {"splits": {"by": "date", "val_from": "2020-01-01"}}, "recordings are split by trial and film"),
        ("text", {"splits": {"val": "valid/*"}, "filters": {"duplicates": "keep"}}, "equal records in several splits"),
        ("text", {"splits": {"val": 1.5}}, "expected a share from 0 to 1, or names in a list, got 1.5"),
        ("text", {"splits": {"val": True}}, "expected a share from 0 to 1, or names in a list, got True"),
        ("text", {"splits": {"val": []}}, "expected a share from 0 to 1, or names in a list"),
        ("text", {"splits": {"val": 0.6, "test": 0.6}}, "expected shares with a sum of at most 1, got 0.6 and 0.6"),
        ("chess", {"splits": {"by": "date", "val_from": "2020-01-01", "test": "x"}}, "by: date has val_from"),
        ("text", {"mode": "stream", "splits": {"by": "file"}}, "expected content in mode stream, got file"),
    ],
)
def test_what_cannot_be_split_so_is_said(domain: str, settings: dict[str, object], said: str) -> None:
    with pytest.raises(ParamsError, match=said):
        section_of(domain, "convert()", None, {**settings, "raw": "x"})


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("elo", r"splits.by: expected content, file, or a column of the store \(black_elo, .*got elo"),
        ("place", "place is for text"),
        ("source", "got source"),
        ("players", r"splits.by: players needs the columns black and white: set source.tags to \[White, Black\]"),
    ],
)
def test_an_unknown_column_is_named_before_anything_is_written(tmp_path: Path, by: str, said: str) -> None:
    (tmp_path / "games.pgn").write_text("1. e4 1-0\n\n")
    with pytest.raises(ParamsError, match=said):
        outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "chess.zarr", splits={"by": by})
    assert not (tmp_path / "chess.zarr").exists()


def rejected(table: Path) -> list[tuple[str, int]]:
    with table.open() as lines:
        return [(line["reason"], int(line["offset"])) for line in csv.DictReader(lines)]


def test_files_are_held_out_by_pattern_and_the_rest_by_its_share(tmp_path: Path) -> None:
    for folder in ("train", "valid", "test/hard"):
        (tmp_path / "raw" / folder).mkdir(parents=True)
        write_texts(tmp_path / "raw" / folder, [f"{folder[:2]}{number}" for number in range(4)])
    settings = {"tokenizer": {"vocab_size": 300}}
    outofcore.convert(
        "text", tmp_path / "raw", tmp_path / "a.zarr", splits={"val": "valid/*", "test": "test/*"}, **settings
    )
    opened = outofcore.open_store(tmp_path / "a.zarr")
    names = opened.sources["name"].read()
    for split, folder in (("train", "train/"), ("val", "valid/"), ("test", "test/")):
        source = opened.sequences(split)["source"].read()
        assert len(source) == 20
        assert all(name.startswith(folder) for name in names[source])
    splits = {"val": 0.3, "test": ["test/*", "valid/va1*"], "seed": 2}
    outofcore.convert("text", tmp_path / "raw", tmp_path / "b.zarr", splits=splits, **settings)
    opened = outofcore.open_store(tmp_path / "b.zarr")
    outofcore.convert(
        "text", tmp_path / "raw", tmp_path / "c.zarr", splits={"val": 0.3, "test": 0.0, "seed": 2}, **settings
    )

    def places_of(store: Path, split: str) -> set[tuple[int, int]]:
        table = outofcore.open_store(store).sequences(split)
        return set(zip(table["source"].read().tolist(), table["offset"].read().tolist(), strict=True))

    named = {place for split in SPLITS for place in places_of(tmp_path / "c.zarr", split)}
    named = {(source, offset) for source, offset in named if names[source].startswith(("test/", "valid/va1"))}
    assert places_of(tmp_path / "b.zarr", "test") == named
    assert places_of(tmp_path / "b.zarr", "val") == places_of(tmp_path / "c.zarr", "val") - named


def test_values_of_a_column_name_what_is_held_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    moves = ["e4", "d4", "c4", "Nf3", "b3", "g3", "f4", "a3"]
    tiers = ["train", "validation", "final_test", "oracle", "validation", "train", "", "final_test"]
    games = [f'[Tier "{tier}"]\n\n1. {move} 1-0\n\n' for tier, move in zip(tiers, moves, strict=True)]
    (tmp_path / "games.pgn").write_text("".join(games))
    settings = {"source": {"tags": ["Tier"]}}
    splits = {"by": "tier", "val": ["validation", "oracle"], "test": "final_test"}
    outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "a.zarr", splits=splits, **settings)
    found = {tier: next(iter(each)) for tier, each in places(tmp_path / "a.zarr", "tier").items()}
    assert found == {"train": "train", "": "train", "validation": "val", "oracle": "val", "final_test": "test"}
    assert "note: chess.splits" not in capfd.readouterr().err
    splits = {"by": "tier", "val": ["valid"], "test": 0}
    outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "b.zarr", splits=splits, **settings)
    assert "note: chess.splits: nothing is in val, split by tier\n" in capfd.readouterr().err
    splits = {"by": "tier", "val": "oracle", "test": "oracle"}
    with pytest.raises(ParamsError, match="val and test to name different things, both name 'oracle'"):
        outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "c.zarr", splits=splits, **settings)


@pytest.mark.parametrize("named", [False, True])
def test_by_players_both_players_of_a_game_are_held_out_and_mixed_games_are_listed(
    tmp_path: Path, *, named: bool
) -> None:
    """Each player has one split; a game between players of two splits is in neither."""
    letters = "abcdefghijklmnopqrs"
    players = [f"player {number}" for number in range(24)] + [""]
    pairs = [(black, white) for black in players for white in players if black != white]
    points = [f"{one}{two}" for one in letters for two in letters]
    games = [
        f"(;GM[1]SZ[19]PB[{black}]PW[{white}];B[{points[place % 300]}];W[{points[300 + place // 300]}])"
        for place, (black, white) in enumerate(pairs)
    ]
    (tmp_path / "games.sgf").write_text("\n".join(games))
    splits = {"by": "players", "val": 0.3, "test": 0.2}
    if named:
        splits |= {"val": players[:5], "test": players[5:9]}
    figures = outofcore.convert("go", tmp_path / "games.sgf", tmp_path / "go.zarr", splits=splits)
    store = outofcore.open_store(tmp_path / "go.zarr")
    stored: dict[tuple[str, str], str] = {}
    for split in SPLITS:
        table = store.sequences(split)
        stored |= dict.fromkeys(zip(table["black"].read(), table["white"].read(), strict=True), split)
    own = {black: split for (black, white), split in stored.items() if white}
    assert set(own.values()) == set(SPLITS)
    if named:
        assert [own[player] for player in players[:-1]] == ["val"] * 5 + ["test"] * 4 + ["train"] * 15
    own[""] = "train"
    assert stored == {pair: own[pair[0]] for pair in pairs if own[pair[0]] == own[pair[1]]}
    assert figures["found"] == len(pairs) == figures["accepted"] + figures["rejected"]["mixed_players"]
    listed = rejected(tmp_path / "go.zarr.rejects.csv")
    offsets = np.cumsum([0, *(len(game) + 1 for game in games)]).tolist()
    assert listed == [("mixed_players", at) for at, pair in zip(offsets, pairs, strict=False) if pair not in stored]


def test_a_share_of_one_holds_out_everything() -> None:
    keys = np.append(KEYS[:2000], np.full((1, 16), 255, np.uint8), axis=0)
    assert (assign(keys, SplitSection(val=0, test=1)) == 2).all()
    assert (assign(keys, SplitSection(val=1, test=0)) == 1).all()
    assert set(assign(keys, SplitSection(val=0.7, test=0.3)).tolist()) == {1, 2}
