"""Game tags as columns: Elo, date, result, variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from outofcore.domains.chess.pgn.classes import CHESS960, STANDARD, castles_as_in_chess960, variant_code
from outofcore.domains.chess.pgn.games import TAGS, Games, decoded
from outofcore.domains.chess.pgn.lexis import (
    BLACK_WINS,
    CONFLICT,
    DRAW,
    NO_RESULT,
    UNKNOWN_RESULT,
    WHITE_WINS,
    Bytes,
    result_code,
)

LARGEST_ELO = 9999


@dataclass(frozen=True)
class Facts:
    """Columns of n games."""

    elo: npt.NDArray[np.int16]  # (n, 2) int16: White's and Black's, 0 if unknown
    date: npt.NDArray[np.int32]  # (n,) int32: yyyymmdd, 0 for unknown digits; Date, else UTCDate
    result: npt.NDArray[np.int8]  # (n,) int8: 1, 0, -1 for White; undefined if ``outcome`` is not a result
    outcome: npt.NDArray[np.uint8]  # (n,) uint8: result of tag and marker, a lexis code; CONFLICT if they differ
    variant: npt.NDArray[np.uint8]  # (n,) uint8: STANDARD, CHESS960 or OTHER_VARIANT


def read_facts(games: Games) -> Facts:
    """Read the tags of all games at once."""
    count = len(games)
    elo = np.zeros((count, 2), np.int16)
    date = np.zeros(count, np.int32)
    tagged = np.zeros(count, np.uint8)
    _read_numbers(games.data, games.tags, elo, date, tagged)
    marker = games.results
    decided = (tagged >= WHITE_WINS) & (tagged <= BLACK_WINS)
    outcome = np.where(decided & ((marker == NO_RESULT) | (marker == UNKNOWN_RESULT)), tagged, marker)
    both = decided & (marker >= WHITE_WINS) & (marker <= BLACK_WINS)
    outcome[both & (tagged != marker)] = CONFLICT
    return Facts(
        elo=elo,
        date=date,
        result=(DRAW - outcome.astype(np.int8)).astype(np.int8),
        outcome=outcome.astype(np.uint8),
        variant=_variants(games),
    )


def _variants(games: Games) -> npt.NDArray[np.uint8]:
    """Variant of each game: by its tag, or by its start position if the tag does not mention Chess960."""
    variants = np.array([variant_code(name) for name in text_column(games, "Variant")], np.uint8)
    own_start = games.tags[:, TAGS.index("FEN"), 0] >= 0
    for game in np.flatnonzero(own_start & (variants == STANDARD)).tolist():
        if castles_as_in_chess960(games.start_fen(game)):
            variants[game] = CHESS960
    return variants


def text_column(games: Games, name: str) -> npt.NDArray[Any]:
    """Values of one tag as text, (n,) object; empty if missing."""
    column = np.full(len(games), "", object)
    bounds = games.tags[:, TAGS.index(name)]
    texts: dict[bytes, str] = {}
    for game in np.flatnonzero(bounds[:, 0] >= 0):
        raw = games.data[bounds[game, 0] : bounds[game, 1]].tobytes()
        if raw not in texts:
            texts[raw] = decoded(raw).replace('\\"', '"').replace("\\\\", "\\").replace("\0", "")
        column[game] = texts[raw]
    return column


_DATE, _UTC_DATE = TAGS.index("Date"), TAGS.index("UTCDate")
_RESULT, _WHITE_ELO, _BLACK_ELO = TAGS.index("Result"), TAGS.index("WhiteElo"), TAGS.index("BlackElo")


@njit(nogil=True, cache=True)
def _stripped(data: Bytes, i: int, j: int) -> tuple[int, int]:
    while i < j and data[i] <= ord(" "):
        i += 1
    while j > i and data[j - 1] <= ord(" "):
        j -= 1
    return i, j


@njit(nogil=True, cache=True)
def _elo(data: Bytes, i: int, j: int) -> int:
    """The number ``data[i:j]``, 0 if it is not a valid Elo."""
    i, j = _stripped(data, i, j)
    value = 0
    for k in range(i, j):
        if not ord("0") <= data[k] <= ord("9"):
            return 0
        value = min(value * 10 + data[k] - ord("0"), LARGEST_ELO + 1)
    return value if value <= LARGEST_ELO else 0


@njit(nogil=True, cache=True)
def _date(data: Bytes, i: int, j: int) -> int:
    """``1997.05.??`` as 19970500; 0 if ``data[i:j]`` is not a date."""
    i, j = _stripped(data, i, j)
    if j - i != 10 and j - i != 4:
        return 0
    value = 0
    for k in range(i, j):
        if k - i == 4 or k - i == 7:
            if not (data[k] == ord(".") or data[k] == ord("-") or data[k] == ord("/")):
                return 0
        elif ord("0") <= data[k] <= ord("9"):
            value = value * 10 + data[k] - ord("0")
        elif data[k] == ord("?"):
            value *= 10
        else:
            return 0
    return value if j - i == 10 else value * 10000


@njit(nogil=True, cache=True)
def _read_numbers(
    data: Bytes,
    tags: npt.NDArray[np.int32],
    elo: npt.NDArray[np.int16],
    date: npt.NDArray[np.int32],
    result: npt.NDArray[np.uint8],
) -> None:
    for game in range(tags.shape[0]):
        elo[game, 0] = _elo(data, tags[game, _WHITE_ELO, 0], tags[game, _WHITE_ELO, 1])
        elo[game, 1] = _elo(data, tags[game, _BLACK_ELO, 0], tags[game, _BLACK_ELO, 1])
        date[game] = _date(data, tags[game, _DATE, 0], tags[game, _DATE, 1])
        if date[game] == 0:
            date[game] = _date(data, tags[game, _UTC_DATE, 0], tags[game, _UTC_DATE, 1])
        i, j = _stripped(data, tags[game, _RESULT, 0], tags[game, _RESULT, 1])
        if j > i:
            result[game] = result_code(data, i, j)
