from __future__ import annotations

from itertools import chain

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from outofcore.domains.chess import DOMAIN
from outofcore.domains.chess.params import SUFFIXES
from outofcore.domains.chess.pgn.games import game_starts
from outofcore.domains.chess.source import last_start
from outofcore.raw.cutting import TOO_LONG, cut
from outofcore.raw.files import find_files
from outofcore.raw.unit import Unit
from tests.domains.chess.pgn import fragments
from tests.domains.units import unit_of

LONGEST = 1 << 22


def cut_up(folder, data: bytes, size: int = 1 << 20, longest: int = LONGEST) -> list[Unit]:
    """Units of a file with this content."""
    (folder / "a.pgn").write_bytes(data)
    return list(
        cut(find_files(folder, "*", SUFFIXES, section="chess"), SUFFIXES, last_start, size=size, longest=longest)
    )


def games_of(units) -> list[tuple[int, bytes]]:
    """Offset and text of each game, whatever unit it came in."""
    games = []
    for unit in units:
        starts = game_starts(np.frombuffer(unit.payload, np.uint8))
        offsets = unit.origins(starts)[1].tolist()
        for start, end, offset in zip(starts, [*starts[1:], len(unit.payload)], offsets, strict=False):
            games.append((offset, unit.payload[start:end]))
    return games


@given(fragments.games | fragments.pgn, st.integers(1500, 6000))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cuts_never_show(tmp_path, data, size):
    units = cut_up(tmp_path, data, size)
    assert b"".join(unit.payload for unit in units) == data
    assert max(len(unit.payload) for unit in units) <= 2 * max(size, *map(len, chain([b""], fragments.GAMES)))
    assert games_of(units) == games_of([unit_of(data)])


@given(fragments.games | fragments.pgn)
@settings(max_examples=150, deadline=None)
def test_the_last_start_is_one(data):
    assert last_start(data) in {0, *game_starts(np.frombuffer(data, np.uint8)).tolist()}


@given(fragments.games | fragments.pgn)
@example(b"1. e4 1-0\n\n1.")  # cut in a move number: no game begins there
@example(b'{[Event "no moves"]\n[Result "*"]\n\n[Event "no moves"]\n[Result "*"]\n\n')  # a start by what follows it
@settings(max_examples=100, deadline=None)
def test_a_unit_is_divided_until_each_game_is_alone(data):
    waiting, alone = [unit_of(data, 5)], []
    while waiting:
        unit = waiting.pop()
        parts = DOMAIN.divided(None)(unit)
        waiting += reversed(parts)
        alone += [] if parts else [unit]
    assert games_of(alone) == games_of([unit_of(data, 5)])
    for unit in alone:  # a game stays with the next one only where any cut would move the start of another
        games = games_of([unit])
        for at in np.cumsum([len(text) for _, text in games])[:-1]:
            first, second = unit_of(unit.payload[:at]), unit_of(unit.payload[at:])
            assert [text for _, text in games_of([first, second])] != [text for _, text in games]


def test_a_game_beyond_all_bounds_is_passed_over_and_said(tmp_path):
    game = b'[Event "a"]\n\n1. e4 1-0\n\n'
    monster = b'[Event "b"]\n\n{' + (b"x" * 79 + b"\n") * 625 + b"} 1. d4 1-0\n"
    for size in (700, 1000, 4096):
        units = cut_up(tmp_path, game * 9 + monster + game * 7, size, 20_000)
        assert len(games_of(units)) == 16
        rejects = [(each.offset, each.reason) for unit in units for each in unit.rejects]
        assert rejects == [(9 * len(game), TOO_LONG)]


def test_a_file_without_lines_is_one_record(tmp_path):
    units = cut_up(tmp_path, b"\x01" * 300_000, 4096, 20_000)
    assert [(each.offset, each.reason) for unit in units for each in unit.rejects] == [(0, TOO_LONG)]
    assert games_of(units) == []
