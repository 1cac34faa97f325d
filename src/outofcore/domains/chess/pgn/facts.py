"""Game tags as columns: Elo, date, result, variant."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from outofcore.domains.chess import codes
from outofcore.domains.chess.pgn.classes import castles_as_in_chess960, result_of, variant_code
from outofcore.domains.chess.pgn.games import Games, decoded, unescaped
from outofcore.ndarrays import Bytes, Ints

_ELO = re.compile(rb"0*(\d{1,4})(?:\.0*)?\??")
_SPREADSHEETS_ZERO = b"1899-12-30"
_DATE = re.compile(rb"([\d?]{4})(?:[./-]([\d?]{1,2})[./-]([\d?]{1,2}))?")
_BLANKS = bytes(range(33))
_MONTHS = 12


class Facts(NamedTuple):
    """Columns of n games."""

    elo: npt.NDArray[np.int16]  # (n, 2) int16: White's and Black's, 0 if unknown
    date: npt.NDArray[np.int32]  # (n,) int32: yyyymmdd, 0 for unknown digits; Date, else UTCDate
    result: npt.NDArray[np.int8]  # (n,) int8: 1, 0, -1 for White; else UNFINISHED
    outcome: Bytes  # (n,) uint8: result of tag and marker, as in Games.results; CONFLICT if they differ
    variant: Bytes  # (n,) uint8: STANDARD, CHESS960 or OTHER_VARIANT

    def of(self, games: Ints | slice) -> Facts:
        """Those of some games, by number."""
        return Facts._make(column[games] for column in self)


def read_facts(games: Games) -> Facts:
    elo = [_column(games, name, _elo, np.int16) for name in ("WhiteElo", "BlackElo")]
    date, utc_date = (_column(games, name, _date, np.int32) for name in ("Date", "UTCDate"))
    tagged, marker = _column(games, "Result", _result, np.uint8), games.results
    decided = (tagged >= codes.WHITE_WINS) & (tagged <= codes.BLACK_WINS)
    outcome = np.where(decided & ((marker == codes.NO_RESULT) | (marker == codes.UNKNOWN_RESULT)), tagged, marker)
    both = decided & (marker >= codes.WHITE_WINS) & (marker <= codes.BLACK_WINS)
    outcome[both & (tagged != marker)] = codes.CONFLICT
    known = (outcome >= codes.WHITE_WINS) & (outcome <= codes.BLACK_WINS)
    return Facts(
        elo=np.stack(elo, axis=1),
        date=np.where(date == 0, utc_date, date),
        result=np.where(known, codes.DRAW - outcome.astype(np.int8), codes.UNFINISHED).astype(np.int8),
        outcome=outcome,
        variant=_variants(games),
    )


def text_column(games: Games, name: str) -> npt.NDArray[Any]:
    """Values of a tag as text, (n,) object; empty if missing."""
    return _column(games, name, unescaped, object)


def packed(texts: Iterable[str]) -> tuple[Bytes, Ints]:
    """Texts as UTF-8, one after the other, and the span of each, (n, 2)."""
    encoded = [text.encode() for text in texts]
    bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), np.stack([bounds[:-1], bounds[1:]], axis=1)


def _column(games: Games, name: str, parse: Callable[[bytes], Any], dtype: Any) -> npt.NDArray[Any]:
    """Values of one tag, (n,), each distinct one parsed once; missing ones are parsed as empty."""
    encoded = spanned(games.data, games.spans(name)).dictionary_encode()
    numbers = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
    return np.array([parse(value) for value in encoded.dictionary.to_pylist()], dtype)[numbers]


def spanned(data: Bytes, spans: npt.NDArray[Any]) -> pa.BinaryArray:
    """Texts of ascending spans (n, 2), of -1 an empty one, as an array of Arrow.

    It is made of buffers: ``pa.array`` and ``to_numpy`` import pandas.
    """
    bounds = np.maximum.accumulate(np.append(0, spans)).astype(np.int32)
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 2 * len(spans), [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    every_other = 2 * np.arange(len(spans)) + 1
    return pieces.take(pa.Array.from_buffers(pa.int64(), len(spans), [None, pa.py_buffer(every_other)]))


@lru_cache(10_000)  # they repeat from unit to unit
def _elo(raw: bytes) -> int:
    """An Elo up to 9999, ``1500?`` (provisional) and ``1500.0`` as 1500; 0 if invalid."""
    digits = _ELO.fullmatch(raw.strip(_BLANKS))
    return int(digits[1]) if digits else 0


@lru_cache(10_000)
def _date(raw: bytes) -> int:
    """``1997.05.??`` and ``1997.5.?`` as 19970500, a month or day that no calendar has as unknown; 0 if invalid."""
    date = None if raw == _SPREADSHEETS_ZERO else _DATE.fullmatch(raw.strip(_BLANKS))
    year, month, day = (0 if b"?" in part else int(part) for part in date.groups(b"?")) if date else (0, 0, 0)
    month = month if month <= _MONTHS else 0
    day = day if month and day <= monthrange(year or 4, month)[1] else 0  # of an unknown year, one with a February 29
    return year * 10_000 + month * 100 + day


def _result(raw: bytes) -> int:
    return result_of(decoded(raw.translate(None, _BLANKS)))


def variant_of(games: Games, game: int) -> int:
    """Variant of a game: by its tag, or by its start position if the tag does not mention Chess960."""
    code = variant_code(games.tag(game, "Variant"))
    return codes.CHESS960 if code == codes.STANDARD and castles_as_in_chess960(games.start_fen(game)) else code


def _variants(games: Games) -> Bytes:
    variants = np.array([variant_code(name) for name in text_column(games, "Variant")], np.uint8)
    for game in np.flatnonzero(games.spans("FEN")[:, 0] >= 0).tolist():
        variants[game] = variant_of(games, game)
    return variants
