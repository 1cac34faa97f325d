"""Read the properties of a game and apply the filters to them, before a stone is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.params import FilterSection
from outofcore.domains.go.sgf import meaning
from outofcore.domains.go.sgf.handicap import Handicap, HandicapRule, handicap, stated
from outofcore.domains.go.sgf.meaning import KomiRule, ResultKind, Ruleset
from outofcore.domains.go.sgf.names import NameRule, decode
from outofcore.domains.go.sgf.reader import PROPERTIES

_PB, _PW, _BR, _WR, _KM, _HA, _RE, _DT, _RU, _SZ, _CA, _GM = range(len(PROPERTIES))
CHARSET = _CA
_KIND_WORDS = {kind: kind.name.lower() for kind in ResultKind}
_UNPLACED, _PLACED = HandicapRule.UNPLACED, HandicapRule.PLACED
Rejection = tuple[str, str]
"""Reason and detail."""


@dataclass(slots=True)
class Header:
    """The parsed properties of a game."""

    black_bytes: bytes
    white_bytes: bytes
    black: str
    white: str
    name_rule: NameRule
    black_rank: int
    white_rank: int
    size: int
    komi_raw: bytes
    komi: float
    komi_rule: KomiRule
    handicap: Handicap
    stated: int
    rules: Ruleset
    result: meaning.Outcome
    date: int


def read_header(values: Sequence[bytes], facts: list[int], *, utf16: bool, codec: str | None = None) -> Header:
    """Parse the properties of a game.

    ``values`` of :data:`PROPERTIES` are empty if missing; ``facts`` is a row of
    :func:`outofcore.domains.go.sgf.handicap.openings`; ``codec`` is the original encoding if the game was transcoded.
    """
    (black, white, black_rank, white_rank), rule = decode(
        (values[_PB], values[_PW], values[_BR], values[_WR]), b"UTF-8" if codec else values[_CA], utf16=utf16
    )
    size = meaning.board_size(values[_SZ])
    named = stated(values[_HA])
    komi, komi_rule = meaning.komi(values[_KM])
    return Header(
        black_bytes=values[_PB].decode("utf-8").encode(codec) if codec else values[_PB],
        white_bytes=values[_PW].decode("utf-8").encode(codec) if codec else values[_PW],
        black=black,
        white=white,
        name_rule=rule,
        black_rank=_rank(black_rank, values[_BR], values[_CA]),
        white_rank=_rank(white_rank, values[_WR], values[_CA]),
        size=size,
        komi_raw=values[_KM],
        komi=komi,
        komi_rule=komi_rule,
        handicap=handicap(named, facts, size),
        stated=named,
        rules=meaning.rules(values[_RU]),
        result=meaning.result(values[_RE]),
        date=meaning.date(values[_DT]),
    )


def _rank(text: str, raw: bytes, charset: bytes) -> int:
    """A rank; decoded alone if unknown with the game's other values, since only a name may be damaged."""
    rank = meaning.rank(text)
    if rank != meaning.UNKNOWN_RANK or raw.isascii():
        return rank
    return meaning.rank(decode((raw,), charset)[0][0])


def refusal(header: Header, values: Sequence[bytes], filters: FilterSection) -> Rejection | None:
    """Why a game is filtered out, or None."""
    size, given = header.size, header.handicap
    if values[_GM].strip() not in (b"", b"1"):
        return "other_game", f"GM[{_shown(values[_GM])}] is not Go"
    if size <= 0:
        return ("unreadable_size" if size else "not_square"), f"SZ[{_shown(values[_SZ])}]"
    if size not in filters.sizes:
        return "other_size", f"{size} x {size}; filters.sizes are {list(filters.sizes)}"
    if given.stones and filters.handicap == "drop":
        return "handicap", f"{given.stones} stones"
    if given.rule is _UNPLACED or (given.rule is _PLACED and filters.handicap_without_stones == "reject"):
        return "handicap_without_stones", f"HA[{header.stated}], no stones, White begins"
    if _KIND_WORDS[header.result.kind] not in filters.results:
        return "result", f"RE[{_shown(values[_RE])}]: {_KIND_WORDS[header.result.kind]}"
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


def columns(headers: Sequence[Header]) -> dict[str, npt.NDArray[Any]]:
    """Columns of the sequence table that headers fill."""
    lists: dict[str, tuple[Any, list[Any]]] = {
        "black": (object, [header.black for header in headers]),
        "white": (object, [header.white for header in headers]),
        "black_bytes": (object, [header.black_bytes.decode("latin-1") for header in headers]),
        "white_bytes": (object, [header.white_bytes.decode("latin-1") for header in headers]),
        "name_rule": (np.uint8, [header.name_rule for header in headers]),
        "black_rank": (np.int8, [header.black_rank for header in headers]),
        "white_rank": (np.int8, [header.white_rank for header in headers]),
        "size": (np.uint8, [header.size for header in headers]),
        "komi": (np.float32, [header.komi for header in headers]),
        "komi_raw": (object, [header.komi_raw.decode("latin-1") for header in headers]),
        "komi_rule": (np.uint8, [header.komi_rule for header in headers]),
        "handicap": (np.int16, [header.handicap.stones for header in headers]),
        "handicap_stated": (np.int16, [header.stated for header in headers]),
        "handicap_rule": (np.uint8, [header.handicap.rule for header in headers]),
        "rules": (np.uint8, [header.rules for header in headers]),
        "winner": (np.int8, [header.result.winner for header in headers]),
        "result": (np.uint8, [header.result.kind for header in headers]),
        "margin": (np.float32, [header.result.margin for header in headers]),
        "date": (np.int32, [header.date for header in headers]),
    }
    return {name: np.array(values, dtype) for name, (dtype, values) in lists.items()}
