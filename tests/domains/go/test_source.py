"""Folders, archives, encodings and names of files -> units."""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.domains.go.params import GoSection
from outofcore.domains.go.source import cut_games, pieces_of, units
from outofcore.raw.files import find_files
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import convert, text

GAMES = {
    "players/1.sgf": b"anna\n" + text("Baa", "Wbb", root="PB[anna]PW[b]") + b"\n" + text("Bcc", "Wdd") + b"\n",
    "players/2.sgf": text("Baa", "Wbb", root="PB[anna]PW[b]") + b"(;SZ[9];B[aa];W[aa])",
    "players/10.sgf": b"no games here",
}
FILTERS = {"sizes": [9, 19]}


def write_folder(root: Path) -> Path:
    for name, data in GAMES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def write_tar(path: Path) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, data in GAMES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(zstandard.compress(raw.getvalue()))
    return path


def test_a_folder_and_an_archive_give_the_same(tmp_path: Path) -> None:
    folder = convert(write_folder(tmp_path / "folder"), filters=FILTERS)
    assert folder.sequences["source"].tolist() == ["players/1.sgf", "players/1.sgf", "players/2.sgf"]
    assert folder.sequences["player_of_file"].tolist() == ["players/1", "players/1", "players/2"]
    assert folder.sequences["first_line"].tolist() == ["anna", "anna", ""]
    assert folder.reasons == ["occupied", "no_game"]
    assert convert(write_tar(tmp_path / "a.tar.zst"), filters=FILTERS).same(folder)
    assert convert(tmp_path / "folder", 7, filters=FILTERS).same(folder)
    (tmp_path / "outer" / "deep").mkdir(parents=True)
    write_tar(tmp_path / "outer" / "deep" / "games.tar.zst")
    assert convert(tmp_path / "outer", filters=FILTERS).sequences["source"][0] == "deep/players/1.sgf"


PARTS = st.sampled_from(
    [
        text("Baa", "Wbb", root="PB[a]"),
        text("Bcc", "W", root="PB[\xfc]"),
        b"\n",
        b"anna\n",
        b"(;SZ[9];B[aa]C[cut",
        b"(;SZ[9];B[hh]",
        b"(;SZ[9];B[gh](;W[ee]",
        b"(;SZ[9];B[dd](;W[ee])(;W[ff]))",
        "(;SZ[9]CA[Shift_JIS]PB[表];B[gg])".encode("cp932"),
        b"(;SZ[5];B[aa])",
        b")]",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.lists(PARTS, max_size=8).map(b"\n".join),
    st.integers(1, 60),
    st.sampled_from([1, 2, 3, 100]),
    st.sampled_from(["utf-8", "utf-16"]),
)
def test_cuts_do_not_show_in_any_file(tmp_path: Path, data: bytes, block: int, most: int, encoding: str) -> None:
    raw = tmp_path / "games.sgf"
    raw.write_bytes(data if encoding == "utf-8" else data.decode("latin-1").encode(encoding))
    whole = convert(raw, filters=FILTERS)
    assert convert(raw, block, filters=FILTERS).same(whole)
    assert convert(raw, most=most, filters=FILTERS).same(whole)
    assert whole.differences == []
    assert whole.found == len(whole.keys) + len(whole.rejects)
    assert whole.raw_bytes == raw.stat().st_size


def test_raw_bytes_add_up_to_the_input(tmp_path: Path) -> None:
    raw = write_folder(tmp_path / "folder")
    write_tar(raw / "z.tar.zst")
    (raw / "empty.sgf").write_bytes(b"")
    with tarfile.open(raw / "nothing.tar", "w"):
        pass
    converted = convert(raw, block=50, filters=FILTERS)
    assert converted.raw_bytes == sum(file.stat().st_size for file in raw.rglob("*") if file.is_file())
    assert converted.reasons.count("no_game") == 4


def test_utf16_and_its_offsets(convert_text: ConvertText) -> None:
    one, two = "(;SZ[9]PB[柯𝔸];B[aa])", "(;SZ[9]PB[b];B[bb])"
    for codec, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"), ("utf-16-le", b""), ("utf-16-be", b"")):
        data = mark + (one + "\n" + two).encode(codec)
        converted = convert_text(data, block=9)
        assert converted.sequences["black"].tolist() == ["柯𝔸", "b"]
        assert converted.sequences["black_bytes"][0].encode("latin-1").decode() == "柯𝔸"
        assert converted.counts["names_utf16"] == 1
        assert converted.counts["names_ascii"] == 1
        offsets = [data.index(game.encode(codec)) for game in (one, two)]
        assert converted.sequences["offset"].tolist() == offsets


def test_offsets_point_at_the_games(convert_text: ConvertText) -> None:
    data = b"\xef\xbb\xbfname\n(;SZ[9];B[aa])x(;SZ[9];B[aa];W[aa])\n(;SZ[9];B[bb])"
    converted = convert_text(data)
    assert [data[offset : offset + 2] for offset in converted.sequences["offset"]] == [b"(;", b"(;"]
    assert [data[reject.offset :][:17] for _, reject in converted.rejects] == [b"(;SZ[9];B[aa];W[a"]
    assert converted.counts["stray_bytes"] == 3 + 4 + 1


@pytest.mark.parametrize("last", [b"(;SZ[9];B[ee];W[f", "(;SZ[9]CA[Shift_JIS]PB[表];B[ee];W[f".encode("cp932")])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("whole", [0, 1, 2, 3])
def test_games_before_damage_are_whole(tmp_path: Path, whole: int, last: bytes, closed: bool) -> None:
    games = [text(f"Ba{letter}", "Wbb", "Bcc") for letter in "bcd"]
    games = games if closed else [game[:-1] + b"\n" for game in games]
    packer = zlib.compressobj(wbits=31)
    data = b"".join(games[:whole]) + last
    (tmp_path / "a.sgf.gz").write_bytes(packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))
    converted = convert(tmp_path / "a.sgf.gz", filters=FILTERS)
    assert converted.reasons == ["damaged_file"]
    assert converted.rejects[0][1].offset == sum(map(len, games[:whole]))
    assert converted.sequences.get("length", np.zeros(0)).tolist() == [3] * whole
    assert converted.rows["move"].tolist() == [move for n in range(whole) for move in (19 * (n + 1), 20, 40)]
    assert (converted.audited, converted.differences) == (whole * closed, [])


def test_a_unit_has_a_bounded_number_of_games_however_short(tmp_path: Path) -> None:
    (tmp_path / "many.sgf").write_bytes(b"(;)" * 250)
    files = find_files(tmp_path, "**/*", (".sgf",), section="go")
    cut = units(files, GoSection.model_validate({"raw": str(tmp_path), "filters": FILTERS}), most=100)
    assert [len(pieces_of(unit)[0].starts) for unit in cut] == [100, 100, 50]
    for number in range(20):
        (tmp_path / f"{number}.sgf").write_bytes(b"(;)" * 30)
    files = find_files(tmp_path, "[0-9]*", (".sgf",), section="go")
    cut = units(files, GoSection.model_validate({"raw": str(tmp_path), "filters": FILTERS}), most=100)
    assert [sum(len(piece.starts) for piece in pieces_of(unit)) for unit in cut] == [90] * 6 + [60]


@pytest.mark.parametrize("head", ["", "anna\n", "\n\n  junk \n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_games_of_divided_units_keep_their_places(tmp_path: Path, head: str, encoding: str) -> None:
    bom = "\ufeff" if encoding == "utf-16-le" else ""
    data = (bom + head + "(;)\n (;SZ[9];B[aa])\n" * 130).encode(encoding)
    (tmp_path / "a.sgf").write_bytes(data)
    files = find_files(tmp_path, "**/*", (".sgf",), section="go")
    cut = units(files, GoSection.model_validate({"raw": str(tmp_path), "filters": FILTERS}), most=100)
    offsets = [offset for unit in cut for offset in cut_games(unit).offsets.tolist()]
    assert offsets == [match.start() for match in re.finditer(re.escape("(;".encode(encoding)), data)]
