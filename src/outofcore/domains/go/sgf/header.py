"""Read the properties of a game and apply the filters to them, before a stone is played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.params import FilterSection
from outofcore.domains.go.sgf import meaning
from outofcore.domains.go.sgf.handicap import handicap, stated
from outofcore.domains.go.sgf.meaning import HandicapRule, KomiRule, ResultKind, Ruleset
from outofcore.domains.go.sgf.names import NameRule, decode
from outofcore.domains.go.sgf.reader import PROPERTIES

_PB, _PW, _BR, _WR, _KM, _HA, _RE, _DT, _RU, _SZ, _CA, _GM = range(len(PROPERTIES))
CHARSET = _CA
Rejection = tuple[str, str]
"""Reason and detail."""


class Header(NamedTuple):
    """The parsed properties of a game: columns of the sequence table, except ``placed``."""

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
    winner: int
    result: ResultKind
    margin: float
    date: int
    placed: int  # handicap stones still to be placed


def read_header(values: Sequence[bytes], facts: list[int], *, utf16: bool, codec: str | None = None) -> Header:
    """Parse the properties of a game; ``facts`` is its row of the openings, ``codec`` its original encoding."""
    (black, white, black_rank, white_rank), name_rule = decode(
        (values[_PB], values[_PW], values[_BR], values[_WR]), b"UTF-8" if codec else values[_CA], utf16=utf16
    )
    black_bytes, white_bytes = (
        (raw.decode("utf-8").encode(codec) if codec else raw).decode("latin-1") for raw in (values[_PB], values[_PW])
    )
    size, named = meaning.board_size(values[_SZ]), stated(values[_HA])
    komi, komi_rule = meaning.komi(values[_KM])
    stones, handicap_rule, placed = handicap(named, facts, size)
    winner, result, margin = meaning.result(values[_RE])
    return Header(
        black=black,
        white=white,
        black_bytes=black_bytes,
        white_bytes=white_bytes,
        name_rule=name_rule,
        black_rank=_rank(black_rank, values[_BR], values[_CA]),
        white_rank=_rank(white_rank, values[_WR], values[_CA]),
        size=size,
        komi=komi,
        komi_rule=komi_rule,
        komi_raw=values[_KM].decode("latin-1"),
        handicap=stones,
        handicap_rule=handicap_rule,
        handicap_stated=named,
        rules=meaning.rules(values[_RU]),
        winner=winner,
        result=result,
        margin=margin,
        date=meaning.date(values[_DT]),
        placed=placed,
    )


def _rank(text: str, raw: bytes, charset: bytes) -> int:
    """A rank; decoded alone if unknown with the game's other values, since only a name may be damaged."""
    rank = meaning.rank(text)
    if rank != meaning.UNKNOWN_RANK or raw.isascii():
        return rank
    return meaning.rank(decode((raw,), charset)[0][0])


def refusal(header: Header, values: Sequence[bytes], filters: FilterSection) -> Rejection | None:
    """Why a game is filtered out, or None."""
    size, rule = header.size, header.handicap_rule
    if values[_GM].strip() not in (b"", b"1"):
        return "other_game", f"GM[{_shown(values[_GM])}] is not Go"
    if size <= 0:
        return ("unreadable_size" if size else "not_square"), f"SZ[{_shown(values[_SZ])}]"
    if size not in filters.sizes:
        return "other_size", f"{size} x {size}; filters.sizes are {list(filters.sizes)}"
    if header.handicap and filters.handicap == "drop":
        return "handicap", f"{header.handicap} stones"
    if rule is HandicapRule.UNPLACED or (rule is HandicapRule.PLACED and filters.handicap_without_stones == "reject"):
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
