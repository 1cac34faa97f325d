"""The columns of the games: a row of :data:`COLUMNS` for each.

A further column is a row here and, if it is read from another property, that property in :data:`PROPERTIES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Any

from outofcore.domains.boards.columns import Column, game_column
from outofcore.domains.go.sgf import meaning
from outofcore.domains.go.sgf.encoding import NameRule, decode, remembered
from outofcore.domains.go.sgf.meaning import HandicapRule, KomiRule, ResultKind, Ruleset, Scoring

PROPERTIES = ("PB", "PW", "BR", "WR", "KM", "HA", "RE", "DT", "RU", "SZ", "CA", "GM")
"""What is read of each game: the first value of each, wherever it is in the main line."""


class Header:
    """The parsed properties of a game.

    Parameters
    ----------
    values
        The first value of each of :data:`PROPERTIES`, b"" where it is missing.
    opening
        The game's row of :func:`outofcore.domains.go.sgf.reader.openings`.
    utf16
        Whether the file is UTF-16.
    codec
        The encoding by which the brackets of the game were read, if not ASCII.
    fox
        Whether Fox wrote it.
    """

    def __init__(
        self, values: Mapping[str, bytes], opening: Sequence[int], *, utf16: bool = False, codec: str = "", fox: bool
    ) -> None:
        self.values, self.utf16, self.codec = values, utf16, codec
        texts = tuple(values[name] for name in ("PB", "PW", "BR", "WR"))
        (self.black, self.white, *ranks), self.name_rule = decode(texts, values["CA"], utf16=utf16, codec=codec)
        self.black_rank, self.white_rank = (self._rank(*rank) for rank in zip(ranks, ("BR", "WR"), strict=True))
        self.size = meaning.board_size(values["SZ"])
        self.handicap_stated = meaning.stones_stated(values["HA"])
        self.handicap, self.handicap_rule = meaning.handicap(self.handicap_stated, opening)
        stated = meaning.rules(values["RU"])
        self.rules, self.suicide, self.superko, self.scoring, _ = stated
        result = meaning.result(self.text("RE"))
        self.winner, self.result, self.margin = result
        self.komi, self.komi_rule = meaning.komi(values["KM"], values["RU"], fox=fox)
        if meaning.contradict(self.komi, result, stated):
            self.komi, self.komi_rule = math.nan, KomiRule.CONTRADICTED
        self.date = meaning.date(values["DT"])

    def text(self, name: str) -> str:
        """A property, decoded."""
        return _text(self.values[name], self.values["CA"], utf16=self.utf16, codec=self.codec)

    def latin1(self, name: str) -> str:
        """A property as in the file, one character per byte."""
        return self.values[name].decode("latin-1")

    def _rank(self, decoded: str, name: str) -> int:
        """A rank; decoded alone if unknown with the game's other values, since only a name may be damaged."""
        rank = meaning.rank(decoded)
        if rank != meaning.UNKNOWN_RANK or self.values[name].isascii():
            return rank
        return meaning.rank(self.text(name))


@remembered
def _text(raw: bytes, charset: bytes, *, utf16: bool, codec: str) -> str:
    return decode((raw,), charset, utf16=utf16, codec=codec)[0][0]


def _column(
    name: str, dtype: Any, doc: str, value: Callable[[Header], Any] | None = None, codes: type[IntEnum] | None = None
) -> Column:
    """A column; without ``value``, the attribute of its name. ``codes`` are the names of its numbers."""
    of_game = value or attrgetter(name)
    attributes = {"codes": {code.name.lower(): int(code) for code in codes}} if codes else {}
    return game_column(name, dtype, doc, lambda games: [of_game(header) for header in games.headers], attributes)


COLUMNS = (
    game_column("game", "int64", "as in the rows"),
    _column("black", "string", "name of Black (PB), decoded by name_rule"),
    _column("white", "string", "name of White (PW), decoded by name_rule"),
    _column("black_bytes", "string", "PB as in the file, one character (latin-1) per byte", lambda h: h.latin1("PB")),
    _column("white_bytes", "string", "PW as in the file, one character (latin-1) per byte", lambda h: h.latin1("PW")),
    _column("name_rule", "uint8", "how names were decoded", codes=NameRule),
    _column("black_rank", "int8", "9 dan 9, 1 dan 1, 1 kyu 0, 30 kyu -29, professional + 100; -128 unknown"),
    _column("white_rank", "int8", "as black_rank"),
    _column("size", "uint8", "side of the board"),
    _column("komi", "float32", "points for White, by komi_rule; NaN unknown"),
    _column("komi_raw", "string", "KM as in the file", lambda h: h.latin1("KM")),
    _column("komi_rule", "uint8", "how komi was read", codes=KomiRule),
    _column("handicap", "int16", "stones that Black was given, by handicap_rule"),
    _column("handicap_stated", "int16", "HA as in the file; -1: missing, or no number"),
    _column("handicap_rule", "uint8", "how the handicap was found", codes=HandicapRule),
    _column("rules", "uint8", "ruleset (RU)", codes=Ruleset),
    _column("scoring", "uint8", "what is counted, by RU", codes=Scoring),
    _column("winner", "int8", "1 Black, -1 White, 0 nobody or unknown"),
    _column("result", "uint8", "how the game ended (RE)", codes=ResultKind),
    _column("margin", "float32", "points that the winner was ahead; NaN where not counted"),
    _column("date", "int32", "year * 10000 + month * 100 + day, 00 for what is unknown"),
    game_column("first_player", "int8", "who made the first move: 0 Black, 1 White"),
    game_column("alternating", "bool", "whether the colours take turns in all moves"),
    game_column("player_of_file", "string", "path of the file without its ending: whose games it holds"),
    game_column("first_line", "string", "the file's first line where it is a name and no SGF"),
    game_column("source", "string", "path of the file, below the raw folder or inside the archive"),
    game_column("offset", "int64", "byte of the decompressed file at which the game begins"),
)
