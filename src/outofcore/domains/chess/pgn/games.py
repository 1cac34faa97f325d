"""Read the games of a piece of PGN: tags, move tokens, termination markers, clocks and evaluations.

Main-line moves are copied as tokens separated by blanks, without numbers, comments, variations or glyphs. The engine
must turn every token into one move, so nothing in the text is skipped unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.pgn.lexis import Bytes
from outofcore.domains.chess.pgn.mainline import read_text

TAGS = (
    "Event",
    "White",
    "Black",
    "Date",
    "Result",
    "WhiteElo",
    "BlackElo",
    "UTCDate",
    "UTCTime",
    "TimeControl",
    "Termination",
    "Variant",
    "FEN",
    "WhiteTitle",
    "BlackTitle",
    "WhiteRatingDiff",
)
"""The tags that are read; the last occurrence of a tag counts."""


def _name_table() -> Bytes:
    table = np.zeros((len(TAGS), max(map(len, TAGS)) + 1), np.uint8)
    for row, name in enumerate(TAGS):
        table[row, : len(name)] = list(name.encode())
    return table


NAMES = _name_table()


@dataclass(frozen=True)
class Games:
    """The n games of a piece of PGN, with m tokens in all."""

    data: Bytes
    starts: npt.NDArray[np.int64]  # (n + 1,) int64: start of each game, and end of the last
    tags: npt.NDArray[np.int32]  # (n, len(TAGS), 2) int32: span of each tag's value in ``data``; -1 if missing
    bodies: npt.NDArray[np.int64]  # (n,) int64: end of each game's tags
    results: Bytes  # (n,) uint8: termination marker after the moves, a lexis code
    text: Bytes  # the tokens, each followed by a blank
    text_offsets: npt.NDArray[np.int32]  # (n + 1,) int32: start of each game in ``text``
    token_offsets: npt.NDArray[np.int32]  # (n + 1,) int32: number of each game's first token
    clock: npt.NDArray[np.int32]  # (m,) int32 centiseconds after each move; see notes
    evaluation: npt.NDArray[np.int16]  # (m,) int16 centipawns
    mate: npt.NDArray[np.int8]  # (m,) int8 moves
    castling: Bytes  # (m,) uint8: castling side of the token, if any

    def __len__(self) -> int:
        return len(self.results)

    @property
    def plies(self) -> npt.NDArray[np.int32]:
        """(n,) int32: tokens of each game."""
        return np.diff(self.token_offsets)

    def tag(self, game: int, name: str) -> str | None:
        """Value of a tag as UTF-8 or else Latin-1; None if missing."""
        begin, end = self.tags[game, TAGS.index(name)]
        return decoded(self.data[begin:end].tobytes()) if begin >= 0 else None

    def start_fen(self, game: int) -> str:
        """The game's own start position, or an empty text."""
        return (self.tag(game, "FEN") or "").replace('"', "").strip()

    def body(self, game: int) -> str:
        """Text of a game after its tags."""
        return decoded(self.data[self.bodies[game] : self.starts[game + 1]].tobytes())

    def tokens(self, game: int) -> list[str]:
        """Moves of a game as written; only spaces separate them, not other Unicode white space."""
        text = self.text[self.text_offsets[game] : self.text_offsets[game + 1]]
        return decoded(text.tobytes()).split(" ")[:-1]


def decoded(text: bytes) -> str:
    """Text of a PGN file: UTF-8, or Latin-1 as in the standard."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def read_games(data: Bytes, starts: npt.NDArray[np.int64]) -> Games:
    """Read the games at ``starts`` (from ``game_starts``); the last one ends with the data."""
    count = len(starts)
    bounds = np.append(starts, data.size)
    most_tokens = data.size // 2 + count + 1
    tags = np.full((count, len(TAGS), 2), -1, np.int32)
    bodies = starts.copy()
    results = np.zeros(count, np.uint8)
    text = np.empty(data.size + count + 1, np.uint8)
    text_offsets = np.zeros(count + 1, np.int32)
    token_offsets = np.zeros(count + 1, np.int32)
    clock = np.empty(most_tokens, np.int32)
    evaluation = np.empty(most_tokens, np.int16)
    mate = np.empty(most_tokens, np.int8)
    castling = np.empty(most_tokens, np.uint8)
    read_text(
        data,
        bounds,
        NAMES,
        tags,
        bodies,
        results,
        text,
        text_offsets,
        token_offsets,
        clock,
        evaluation,
        mate,
        castling,
    )
    tokens = int(token_offsets[-1])
    return Games(
        data=data,
        starts=bounds,
        tags=tags,
        bodies=bodies,
        results=results,
        text=text[: text_offsets[-1]],
        text_offsets=text_offsets,
        token_offsets=token_offsets,
        clock=clock[:tokens],
        evaluation=evaluation[:tokens],
        mate=mate[:tokens],
        castling=castling[:tokens],
    )
