"""Real games: what is accepted, and that every board is sgfmill's."""

from __future__ import annotations

import csv
import io
import tarfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import zstandard
from sgfmill.sgf_grammar import tokenise

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.go import DOMAIN
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.play.oracle import main_line
from outofcore.domains.go.sgf.encoding import NameRule
from outofcore.domains.go.sgf.meaning import HandicapRule, KomiRule
from outofcore.domains.go.sgf.pieces import cut
from outofcore.domains.go.sgf.reader import ADD_BLACK, read_main_lines
from outofcore.raw.files import find_files
from outofcore.store.reader import open_store
from tests.domains.go.games import Converted, convert

pytestmark = pytest.mark.data
NO_SGF = ("nihon-kiin.sgf", "utf16le.sgf")  # to sgfmill
ALL_SIZES = {"sizes": list(range(7, 26))}


def rules(converted: Converted, column: str) -> Counter[int]:
    return Counter(converted.sequences[column].tolist())


def test_amateurs(real_data: Path) -> None:
    converted = convert(real_data / "go" / "kgs.tar.zst", one_in=2)
    assert converted.found == 400
    assert converted.reasons == ["too_short"] * 5  # games that ended without a move
    assert not converted.differences
    assert converted.counts["audited_captures"] > 1000
    assert rules(converted, "handicap_rule")[HandicapRule.ROOT] == 279
    assert converted.counts["passes"] > 200
    assert np.array_equal(converted.sequences["first_player"] == 1, converted.sequences["handicap"] >= 2)
    assert min(converted.sequences["komi"]) == -100.0


def test_professionals_in_broken_files(real_data: Path) -> None:
    converted = convert(real_data / "go" / "fox.tar.zst", one_in=2)
    assert converted.found == 400
    assert converted.reasons == ["handicap_without_stones"] * 4 + ["occupied"]
    assert not converted.differences
    assert converted.counts["audited_captures"] > 1000
    assert rules(converted, "name_rule") == {NameRule.DAMAGED_UTF8: 343, NameRule.UTF8: 52}
    assert rules(converted, "handicap_rule") == {
        HandicapRule.NONE: 158,
        HandicapRule.LATER_NODE: 237,
    }
    assert rules(converted, "komi_rule") == {
        KomiRule.AS_WRITTEN: 319,
        KomiRule.HUNDREDTHS: 62,
        KomiRule.CONTRADICTED: 14,
    }
    komi, rule = np.array(converted.sequences["komi"]), np.array(converted.sequences["komi_rule"])
    assert set(komi[rule != KomiRule.CONTRADICTED]) == {0.0, 4.5, 5.5, 6.5, 7.5}
    # No game with a whole komi is won by half a point, nor one with half a point by whole ones.
    written = np.array([float(each) for each in converted.sequences["komi_raw"]])
    margins = np.array(converted.sequences["margin"])
    assert np.isnan(komi[rule == KomiRule.CONTRADICTED]).all()
    assert ((written + margins)[rule == KomiRule.CONTRADICTED] % 1 == 0.5).all()
    assert min(converted.sequences["black_rank"]) > 0


def test_odd_files(real_data: Path) -> None:
    converted = convert(real_data / "go" / "odd", filters=ALL_SIZES)
    assert converted.reasons == []
    names = dict(zip(converted.sequences["source"], converted.sequences["black"], strict=True))
    assert {name: names[f"{name}.sgf"] for name in ("chinese", "japanese", "korean", "utf16le", "utf8bom")} == {
        "chinese": "古力",
        "japanese": "井山 裕太",
        "korean": "이세돌",
        "utf16le": "Kitani Minoru",
        "utf8bom": "Kitani Minoru",
    }
    assert not converted.differences
    assert converted.counts["unreadable_for_oracle"] == 1  # a root without a semicolon


def test_a_first_line_that_is_a_name(real_data: Path) -> None:
    folder = real_data / "go" / "named-first-line"
    converted = convert(folder, one_in=64)
    assert converted.found == sum(path.read_bytes().count(b"(;") for path in folder.iterdir())
    assert converted.reasons == []
    told = converted.sequences
    assert set(told["first_line"]) == {"euiekdfk", "SwordSouth"}
    assert ((told["black"] == told["first_line"]) | (told["white"] == told["first_line"])).all()


def contents(archive: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    with archive.open("rb") as raw:
        stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        with tarfile.open(fileobj=stream, mode="r|") as entries:
            for entry in entries:
                yield entry, entries.extractfile(entry).read()  # type: ignore[union-attr]


def test_games_and_main_lines_are_those_of_sgfmill(real_data: Path) -> None:
    folder = real_data / "go"
    texts = [path.read_bytes() for path in sorted(folder.glob("named-first-line/150*"))]
    texts += [path.read_bytes() for path in sorted(folder.glob("odd/*")) if path.name not in NO_SGF]
    for archive in ("fox", "kgs"):
        texts += [data for _, data in contents(folder / f"{archive}.tar.zst")]
    count = 0
    for text in texts:
        end = 0
        for piece in cut(io.BytesIO(text).read, 1 << 23):
            games = read_main_lines(piece.payload, piece.starts, piece.ends)
            for number, start in enumerate((piece.offset + piece.starts).tolist()):
                end = tokenise(text, end)[1]
                assert end == piece.offset + piece.ends[number]
                nodes = main_line(text[start:end]) or []
                told = [name for node in nodes for name in node if name in ("B", "W")]
                kinds = games.kind[games.first[number] : games.first[number + 1]]
                assert ["BW"[kind] for kind in kinds.tolist() if kind < ADD_BLACK] == told
                count += 1
        assert not tokenise(text, end)[0]
    assert count > 1400


def test_a_folder_and_an_archive_of_players(real_data: Path, tmp_path: Path) -> None:
    count = {}
    with tarfile.open(tmp_path / "some.tar", "w") as some:
        for entry, data in islice(contents(real_data / "go" / "players.tar.zst"), 5):
            count[entry.name.removesuffix(".sgf")] = data.count(b"(;")
            some.addfile(entry, io.BytesIO(data))
            (tmp_path / "folder" / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "folder" / entry.name).write_bytes(data)
    converted = convert(tmp_path / "some.tar", one_in=256)
    assert Counter(converted.sequences["player_of_file"]) == count
    assert converted.reasons == []
    assert not converted.differences
    assert converted.audited > 10
    assert convert(tmp_path / "folder", block=300_000, one_in=256).same(converted)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_game_of_every_player_is_stored_or_rejected(real_data: Path, tmp_path: Path) -> None:
    raw = real_data / "go" / "players.tar.zst"
    section = GoSection.model_validate({"raw": str(raw), "audit": {"records": 600}})
    files = find_files(raw, "**/*", DOMAIN.suffixes, section="go")
    conversion = Conversion(DOMAIN, section, files, tmp_path / "go.zarr", tmp_path / "go.csv")
    forecast = Estimate(store_bytes=0, rows=0, raw_bytes=0, sampled_bytes=0, sequences=92_000, unusual=1_000)
    executor = open_executor("threads", 2)
    figures = conversion.run(forecast, executor=executor, workers=2, watch=lambda *_: None).figures
    assert figures["found"] == figures["accepted"] + sum(figures["rejected"].values())
    assert set(figures["rejected"]) == {"duplicate"}
    assert figures["audited"] >= 500
    assert figures["audited_captures"] > 5000

    store = open_store(tmp_path / "go.zarr")
    found = Counter(name for split in store.splits for name in store.sequences(split)["source"].read().tolist())
    with (tmp_path / "go.csv").open(newline="") as rejects:
        found.update(row["file"].removeprefix(f"{raw.name}/") for row in csv.DictReader(rejects))
    count = {entry.name: data.count(b"(;") for entry, data in contents(raw)}
    assert len(count) == 80
    assert found == count
