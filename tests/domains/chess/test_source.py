from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.domains.chess.params import ChessSection
from outofcore.domains.chess.pgn.games import game_starts
from outofcore.domains.chess.source import TOO_LONG, last_start, pieces, units
from outofcore.raw.files import find_files
from outofcore.raw.gather import parts_of
from outofcore.raw.unit import Unit
from tests.domains.chess.pgn import fragments

LONGEST = 1 << 22
SECTION = ChessSection(raw="raw")


def units_of(raw) -> list[Unit]:
    """The units of a folder, before small files share one."""
    found = units(find_files(raw, "**/*", (".pgn",), section="chess"), SECTION)
    return [part for unit in found for part in parts_of(unit)]


def games_of(found) -> list[tuple[int, bytes]]:
    """Offset and text of each game, whatever piece it came in."""
    games = []
    for piece in found:
        starts = game_starts(np.frombuffer(piece.text, np.uint8)).tolist()
        for start, end in zip(starts, [*starts[1:], len(piece.text)], strict=False):
            games.append((piece.offset + start, piece.text[start:end]))
    return games


@given(fragments.games | fragments.pgn, st.integers(1500, 6000))
@settings(max_examples=100, deadline=None)
def test_cuts_never_show(data, size):
    cut = list(pieces(io.BytesIO(data), LONGEST, size))
    assert b"".join(piece.text for piece in cut) == data
    assert games_of(cut) == games_of(pieces(io.BytesIO(data), LONGEST, 1 << 20))


@given(fragments.games | fragments.pgn)
@settings(max_examples=150, deadline=None)
def test_the_last_start_is_one(data):
    assert last_start(data) in {0, *game_starts(np.frombuffer(data, np.uint8)).tolist()}


def test_pieces_are_about_as_long_as_asked_for():
    data = b'[Event "a"]\n\n1. e4 1-0\n\n' * 2000
    lengths = [len(piece.text) for piece in pieces(io.BytesIO(data), LONGEST, 4096)]
    assert max(lengths) <= 2 * 4096
    assert len(lengths) >= len(data) / 4096


def test_a_game_beyond_all_bounds_is_passed_over_and_said():
    game = b'[Event "a"]\n\n1. e4 1-0\n\n'
    monster = b'[Event "b"]\n\n{' + b"x" * 50_000 + b"} 1. d4 1-0\n"
    for size in (700, 1000, 4096):
        found = list(pieces(io.BytesIO(game * 9 + monster + game * 7), 20_000, size))
        assert len(games_of(found)) == 16
        assert [(piece.offset, piece.reason) for piece in found if piece.reason] == [(9 * len(game), TOO_LONG)]


def test_a_file_without_lines_is_one_record():
    found = list(pieces(io.BytesIO(b"\x01" * 300_000), 20_000, 4096))
    assert [(piece.offset, piece.reason) for piece in found] == [(0, TOO_LONG)]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, zstandard.compress])
def test_raw_bytes_add_up(tmp_path, compress):
    suffix = {gzip.compress: ".gz", bz2.compress: ".bz2", zstandard.compress: ".zst"}[compress]
    (tmp_path / f"a.pgn{suffix}").write_bytes(compress(b'[Event "a"]\n\n1. e4 1-0\n\n' * 100_000))
    (tmp_path / "b.pgn").write_bytes(b"")
    (tmp_path / "c.pgn").write_bytes(b"\n\n")
    files = find_files(tmp_path, "**/*", (".pgn",), section="chess")
    found = list(units(files, SECTION))
    assert sum(unit.raw_bytes for unit in found) == sum(file.bytes for file in files)
    assert len(found) > 2


@pytest.mark.parametrize(("compress", "suffix"), [(gzip.compress, ".gz"), (bz2.compress, ".bz2")])
def test_a_damaged_file_gives_what_can_be_read(tmp_path, compress, suffix):
    text = b"".join(b'[Event "%d"]\n\n1. e4 e5 1-0\n\n' % number for number in range(100_000))
    whole = compress(text)
    (tmp_path / f"a.pgn{suffix}").write_bytes(whole[: len(whole) * 3 // 4])
    *before, last = units_of(tmp_path)
    read = b"".join(unit.payload for unit in before)
    assert len(read) > len(text) / 10
    assert text.startswith(read)
    assert (last.offset, last.detail["reason"]) == (len(read), "damaged_file")
    assert "end" in last.detail["detail"]


GAME = b'[Event "a"]\n\n1. e4 e5 1-0\n\n'


def test_units_name_the_member_of_an_archive_that_they_come_from(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("one.pgn", "notes.txt", "two.pgn"):
            archive.writestr(name, GAME)
    (tmp_path / "b.pgn").write_bytes(GAME)
    places = [
        (part.source, part.detail["member"], part.offset, part.name) for part in units_of(tmp_path) if part.payload
    ]
    assert places == [(0, 0, 0, "a.zip/one.pgn"), (0, 1, 0, "a.zip/two.pgn"), (1, 0, 0, "b.pgn")]


def test_what_cannot_be_read_has_the_reason_that_every_domain_gives(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("link.pgn")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for name, content in (("inner.zip", b"PK"), ("damaged.pgn.gz", b"no gzip"), ("whole.pgn", GAME)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    found = units_of(tmp_path)
    reasons = {part.name: part.detail["reason"] for part in found if "reason" in part.detail}
    assert reasons == {
        "a.tar/link.pgn": "not_a_file",
        "a.tar/inner.zip": "nested_archive",
        "a.tar/damaged.pgn.gz": "damaged_file",
    }
    assert [(part.name, part.payload) for part in found if part.payload] == [("a.tar/whole.pgn", GAME)]


def test_a_file_that_becomes_absurdly_large_says_so(tmp_path):
    (tmp_path / "a.pgn.gz").write_bytes(gzip.compress(GAME + bytes(300 << 20)))
    assert "decompression_bomb" in [part.detail.get("reason") for part in units_of(tmp_path)]
