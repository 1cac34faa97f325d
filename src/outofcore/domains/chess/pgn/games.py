"""What the games of a piece of PGN say: tags, moves as bare tokens, termination markers, clocks and evaluations.

The moves of the main line are copied out as tokens, parted by blanks: no numbers, comments, variations or glyphs. The
engine gets these tokens and must make one move of each; nothing that stands in the text is passed over unseen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.pgn.lexis import Bytes
from outofcore.domains.chess.pgn.mainline import read_text

TAGS = (
    "Event",
    "Date",
    "Result",
    "WhiteElo",
    "BlackElo",
    "UTCDate",
    "TimeControl",
    "Termination",
    "Variant",
    "FEN",
    "WhiteTitle",
    "BlackTitle",
    "WhiteRatingDiff",
)
"""The tags that are read; a tag that stands twice counts as it stands last."""


def _name_table() -> Bytes:
    table = np.zeros((len(TAGS), max(map(len, TAGS)) + 1), np.uint8)
    for row, name in enumerate(TAGS):
        table[row, : len(name)] = list(name.encode())
    return table


NAMES = _name_table()


@dataclass(frozen=True)
class Games:
    """The games of a piece of PGN, n of them, with m tokens in all.

    Attributes
    ----------
    data
        The bytes.
    starts
        (n + 1,) int64: where each game begins, and the end of the last one.
    tags
        (n, len(TAGS), 2) int32: where the value of each tag stands in ``data``; -1 where the tag is missing.
    bodies
        (n,) int64: where the tags of each game end.
    results
        (n,) uint8: termination marker after the moves, a code of :mod:`outofcore.domains.chess.pgn.lexis`.
    text, text_offsets
        The tokens, each followed by a blank, and (n + 1,) int32 where those of each game begin.
    token_offsets
        (n + 1,) int32: the number of the first token of each game.
    clock, evaluation, mate
        (m,) int32 centiseconds, int16 centipawns and int8 moves, as noted after each move; see
        :mod:`outofcore.domains.chess.pgn.notes`.
    castling
        (m,) uint8: whether the token is a castling move, and to which side.
    """

    data: Bytes
    starts: npt.NDArray[np.int64]
    tags: npt.NDArray[np.int32]
    bodies: npt.NDArray[np.int64]
    results: Bytes
    text: Bytes
    text_offsets: npt.NDArray[np.int32]
    token_offsets: npt.NDArray[np.int32]
    clock: npt.NDArray[np.int32]
    evaluation: npt.NDArray[np.int16]
    mate: npt.NDArray[np.int8]
    castling: Bytes

    def __len__(self) -> int:
        return len(self.results)

    @property
    def plies(self) -> npt.NDArray[np.int32]:
        """(n,) int32: tokens of each game."""
        return np.diff(self.token_offsets)

    def tag(self, game: int, name: str) -> str | None:
        """Value of a tag, None where it is missing; UTF-8, or else Latin-1."""
        begin, end = self.tags[game, TAGS.index(name)]
        return decoded(self.data[begin:end].tobytes()) if begin >= 0 else None

    def body(self, game: int) -> str:
        """Text of a game after its tags."""
        return decoded(self.data[self.bodies[game] : self.starts[game + 1]].tobytes())

    def tokens(self, game: int) -> list[str]:
        """Moves of a game as they are written; only a space divides them, not what else may count as one in Unicode."""
        text = self.text[self.text_offsets[game] : self.text_offsets[game + 1]]
        return decoded(text.tobytes()).split(" ")[:-1]


def decoded(text: bytes) -> str:
    """Text of a PGN file: UTF-8, or Latin-1 as the standard has it."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def read_games(data: Bytes, starts: npt.NDArray[np.int64]) -> Games:
    """Read the games that begin at ``starts``; the last one ends with the data.

    Parameters
    ----------
    data
        (n,) uint8.
    starts
        Of :func:`outofcore.domains.chess.pgn.starts.game_starts`.
    """
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
