"""Pieces of which tests put PGN together, from plain to hostile."""

from __future__ import annotations

from hypothesis import strategies as st

GAMES = [
    b'[Event "a"]\n[Site "?"]\n[Result "1-0"]\n\n1. e4 e5 2. Nf3 1-0\n\n',
    b'[Event "b"]\r\n[White "Doe, \\"J\\" "]\r\n\r\n1.d4 d5 {x\r\n[%clk 0:01:00]} 2.c4 *\r\n\r\n',
    b'[Date "2000.??.??"]\n[Event "c"]\n1. e4 (1. d4 d5 1-0 (1... e6)) 1... e5 1/2-1/2\n',
    b'[Event "d"]\n\n[Site "empty line"]\n\n1. e4 0-1\n',
    b"1. e4 e5 1-0\n\n1. d4 d5 0-1\n",
    b"1. e4 e5\n\n1. d4 d5\n",
    b'[Event "no moves"]\n[Result "*"]\n\n',
    b'[Event "open comment"]\n\n1. e4 {never closed 1-0\n\n',
    b'[Event "x"] [Site "y"] 1. e4 $1 $22 e5!? 2. Nf3+ 1-0 {after} ; rest [Event "q"]\n',
    b'[Event "unquoted"]\n[White Doe]\n[Black "x"]\n\n1... e5 2. d4 1-0 1-0\n',
    b'\xef\xbb\xbf[Event "bom"]\n\n1. e4 *\n\0\0\n',
    b'% [Event "escaped"]\n',
    b'; [Event "hidden"]\n',
    b'{ comment\n[Site "inside"]\n}\n',
    b'[TimeControl "1+1"]\n\n1. e4 {+0.1/9 0.5s} e5 {mt=70, wv=-M3} 2. Nf3 {[%clk 0:01:00]} Nc6 Zz9 -- Ke3 1-0\n',
    '[Event "L\u00e9ko"]\n\n1. \u2658f3 d5 1-0 \u00bd'.encode(),
]
SCRAPS = [
    *(b"\n", b"\r\n", b"\r", b" ", b"\t", b"\0", b"\x1a", b"{", b"}", b"(", b")", b";", b"%", b"$", b"$1"),
    *(b"*", b"[", b"]", b'"', b'"]', b'[Event "', b"[Event", b'[Site "s"]', b"[Event e]", b"1.", b"1. "),
    *(b"1...", b"1. ...", b"1-0", b"0-1", b"1/2-1/2", b"e4", b"12.Nf3", b"0-0-0", b"\xef\xbb\xbf", b"\xef"),
    *(b"[%clk 0:00:01]", b"{-0.2/3 4s}", b"{wv=1.5, tl=60}", b"Zz9", b"--", b"!", b"..", b"1", b"\\", b"-"),
]

pgn = st.lists(st.sampled_from(GAMES) | st.sampled_from(SCRAPS) | st.binary(max_size=3), max_size=30).map(b"".join)
games = st.lists(st.sampled_from(GAMES), min_size=20, max_size=80).map(b"".join)

EVERYTHING = {
    "source": {"engine_comments": True, "time_spent": True, "tags": ["Site"]},
    "filters": {"unfinished": "keep", "illegal_move": "stop"},
}
"""Settings with which the most is read."""
