"""Read the properties of a game, reconcile HA with the stones on the board, and apply the filters to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.params import FilterSection
from outofcore.domains.go.sgf import meaning
from outofcore.domains.go.sgf.meaning import HandicapRule, KomiRule, ResultKind, Ruleset, Scoring
from outofcore.domains.go.sgf.names import NameRule, decode
from outofcore.domains.go.sgf.reader import ADD_BLACK, BLACK, PROPERTIES, WHITE, MainLines
from outofcore.system.compilation import kernel

_PB, _PW, _BR, _WR, _KM, _HA, _RE, _DT, _RU, _SZ, _CA, _GM = range(len(PROPERTIES))
Rejection = tuple[str, str]
"""Reason and detail."""


OPENING = ("black_stones", "other_setup", "node", "leading_black", "first_colour")
"""Facts about the opening of a game, by column of :func:`openings`."""


class Header(NamedTuple):
    """The parsed properties of a game: columns of the sequence table, except the last two."""

    black: str
    white: str
    black_bytes: str  # latin-1, as is komi_raw
    white_bytes: str
    name_rule: NameRule
    black_rank: int
    white_rank: int
    size: int
    komi: float
    komi_rule: KomiRule
    komi_raw: str
    handicap: int
    handicap_rule: HandicapRule
    handicap_stated: int
    rules: Ruleset
    scoring: Scoring
    winner: int
    result: ResultKind
    margin: float
    date: int
    suicide: bool  # allowed
    superko: int


def read_header(
    values: Sequence[bytes], facts: list[int], *, utf16: bool = False, codec: str = "", fox: bool = False
) -> Header:
    """Parse the properties of a game.

    ``facts`` is its row of the openings, ``codec`` the encoding by which its brackets were read, if not ASCII; ``fox``,
    whether Fox wrote it.
    """

    def text(*raw: bytes) -> tuple[tuple[str, ...], NameRule]:
        return decode(raw, values[_CA], utf16=utf16, codec=codec)

    (black, white, *ranks), name_rule = text(values[_PB], values[_PW], values[_BR], values[_WR])
    black_rank, white_rank = (
        _rank(rank, raw, text) for rank, raw in zip(ranks, (values[_BR], values[_WR]), strict=True)
    )
    size, named = meaning.board_size(values[_SZ]), stated(values[_HA])
    komi, komi_rule = meaning.komi(values[_KM], fox=fox)
    stones, handicap_rule = handicap(named, facts)
    ruleset, suicide, superko, scoring = meaning.rules(values[_RU])
    outcome = meaning.result(text(values[_RE])[0][0])
    if meaning.contradict(komi, outcome):
        komi, komi_rule = math.nan, KomiRule.CONTRADICTED
    return Header(
        black=black,
        white=white,
        black_bytes=values[_PB].decode("latin-1"),
        white_bytes=values[_PW].decode("latin-1"),
        name_rule=name_rule,
        black_rank=black_rank,
        white_rank=white_rank,
        size=size,
        komi=komi,
        komi_rule=komi_rule,
        komi_raw=values[_KM].decode("latin-1"),
        handicap=stones,
        handicap_rule=handicap_rule,
        handicap_stated=named,
        rules=ruleset,
        scoring=scoring,
        winner=outcome.winner,
        result=outcome.kind,
        margin=outcome.margin,
        date=meaning.date(values[_DT]),
        suicide=suicide,
        superko=superko,
    )


def _rank(known: str, raw: bytes, text: Callable[[bytes], tuple[tuple[str, ...], NameRule]]) -> int:
    """A rank; decoded alone if unknown with the game's other values, since only a name may be damaged."""
    rank = meaning.rank(known)
    return rank if rank != meaning.UNKNOWN_RANK or raw.isascii() else meaning.rank(text(raw)[0][0])


def refusal(header: Header, values: Sequence[bytes], filters: FilterSection) -> Rejection | None:
    """Why a game is filtered out, or None."""
    size = header.size
    if values[_GM].strip() not in (b"", b"1"):
        return "other_game", f"GM[{_shown(values[_GM])}] is not Go"
    if size <= 0:
        return ("unreadable_size" if size else "not_square"), f"SZ[{_shown(values[_SZ])}]"
    if size not in filters.sizes:
        return "other_size", f"{size} x {size}; filters.sizes are {list(filters.sizes)}"
    if header.handicap > size * size:
        return "too_many_stones", f"{header.handicap} stones set up on {size} x {size}"
    if header.handicap and filters.handicap == "drop":
        return "handicap", f"{header.handicap} stones"
    if header.handicap_rule is HandicapRule.OMITTED:
        return "handicap_without_stones", f"HA[{header.handicap_stated}], no stones, White begins"
    if header.result.name.lower() not in filters.results:
        return "result", f"RE[{_shown(values[_RE])}]: {header.result.name.lower()}"
    if filters.min_rank is not None:
        return _rank_refusal(header, meaning.rank(filters.min_rank), filters)
    return None


def _rank_refusal(header: Header, least: int, filters: FilterSection) -> Rejection | None:
    known = [rank for rank in (header.black_rank, header.white_rank) if rank != meaning.UNKNOWN_RANK]
    if known and min(known) < least:
        return "rank", f"a player below {filters.min_rank}"
    if len(known) < 2 and filters.unknown_rank == "drop":
        return "unknown_rank", "a player without a rank"
    return None


def _shown(value: bytes) -> str:
    return value[:40].decode("latin-1")


def columns(headers: Sequence[Header], dtypes: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The columns of the sequence table that headers fill."""
    values = zip(*headers, strict=True) if headers else ((),) * len(Header._fields)
    named = zip(Header._fields, values, strict=True)
    return {name: np.array(column, dtypes[name]) for name, column in named if name in dtypes}


def openings(games: MainLines) -> npt.NDArray[np.int64]:
    """Facts about the opening of each game, int64 (games, columns of :data:`OPENING`).

    Points of black setup before the first move; of other setup; node of the first setup (-1 if none); Black's moves
    before White's first; colour of the first move (-1 if none).
    """
    facts = np.zeros((len(games.status), len(OPENING)), np.int64)
    _openings(games, facts)
    return facts


@kernel
def _openings(games: MainLines, facts: npt.NDArray[np.int64]) -> None:
    first, kinds, points, nodes = games.first, games.kind, games.points, games.node
    for game in range(len(facts)):
        facts[game, 2] = facts[game, 4] = -1
        for event in range(first[game], first[game + 1]):
            kind = kinds[event]
            if kind == WHITE:
                if facts[game, 4] < 0:
                    facts[game, 4] = WHITE
                break
            if kind == BLACK:
                facts[game, 3] += 1
                facts[game, 4] = BLACK
            elif facts[game, 3] == 0:
                left, top, right, bottom = points[event]
                columns = abs(np.int64(right) - np.int64(left)) + 1  # uint8 would wrap around
                rows = abs(np.int64(bottom) - np.int64(top)) + 1
                facts[game, 0 if kind == ADD_BLACK else 1] += columns * rows
                if facts[game, 2] < 0:
                    facts[game, 2] = nodes[event]


def stated(raw: bytes) -> int:
    """The number in HA; -1 if missing or invalid."""
    text = raw.strip()
    return min(int(text[:9]), 999) if text.isdigit() else -1


def handicap(named: int, facts: list[int]) -> tuple[int, HandicapRule]:
    """Stones given to Black and the rule, from HA (``named``) and its row of :func:`openings`."""
    black, other, node, leading, colour = facts
    if black or other:
        if other:
            return 0, HandicapRule.POSITION
        return black, HandicapRule.ROOT if node == 0 else HandicapRule.LATER_NODE
    if named < 2:
        return 0, HandicapRule.NONE
    if leading >= named:
        return named, HandicapRule.MOVES
    if colour != WHITE:
        return 0, HandicapRule.STATED_ONLY
    return named, HandicapRule.OMITTED
