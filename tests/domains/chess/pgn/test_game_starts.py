from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings

from outofcore.domains.chess.pgn.games import game_starts
from tests.domains.chess.pgn import fragments


def starts(data: bytes) -> list[int]:
    return game_starts(np.frombuffer(data, np.uint8)).tolist()


@given(fragments.pgn)
@example(b'{comment}% [Event "escaped"]\n')
@settings(max_examples=150, deadline=None)
def test_a_file_may_be_cut_at_any_start(data):
    found = starts(data)
    for cut in found:
        assert starts(data[cut:]) == [start - cut for start in found if start >= cut]


def test_more_games_than_any_real_file_has_bytes_for():
    data = b"1.e4 * " * 5000
    assert len(starts(data)) == 5000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0),
        (b"\r\n\0 \x1a\xef\xbb\xbf", 0),
        (b'[Event "a"]\n\n[Site "b"]\n\n1. e4 1-0\n', 1),
        (b'[Date "a"]\n[Event "b"]\n\n1. e4 1-0\n', 1),
        (b'[Event "a"]\n[Event "b"]\n\n1. e4 1-0\n', 2),
        (b'[Event "a"]\n\n1. e4 {\n[%clk 0:01:00]\n[Site "x"]\n} 1-0\n', 1),
        (b'[Event "a"]\n\n1. e4 {never closed 1-0\n\n[Event "b"]\n\n1. e4 1-0', 2),
        (b'[Event "a"]\n\n1. e4 ( 1. d4 1-0\n\n[Event "b"]\n\n1. e4 1-0', 2),
        (b"1. e4 e5 1-0\n1. d4 d5 0-1", 2),
        (b"1. e4 e5 1-0 1. d4 d5 0-1", 2),
        (b"1. e4 e5\n\n1. d4 d5 0-1", 2),
        (b"1. e4 {a}\n1... e5 1-0", 1),
        (b"1. e4 {a}\n1. ... e5 1-0 $1 ! {b} ; c\n% d", 1),
        (b'[Event "a"]\r[Site "b"]\r\r1. e4 1-0\r[Event "c"]\r', 2),
        (b'[Event "a"]\n\n1. e4 1-0\n\nround two\n\n[Event "b"]\n\n1. e4 1-0', 2),
        (b'; [Event "hidden"]\n% [Event "escaped"]\n', 0),
        (b"neither tags nor moves", 1),
        (b'1. e4 {\n[Event]\n} e5\n[Ev?nt "x"] d4 1-0', 1),
        (b'1. e4 {\n[Event?"x"]\n} 1-0', 1),
    ],
)
def test_counts(text, expected):
    assert len(starts(text)) == expected


@pytest.mark.data
def test_real_files_have_a_game_an_event(real_data):
    for path in (real_data / "chess").glob("*.pgn"):
        data = path.read_bytes()
        assert len(starts(data)) == data.count(b"\n[Event ") + data.startswith(b"[Event "), path.name
