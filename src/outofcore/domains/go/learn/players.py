"""Whose games they are: players by the files that belong to them or by name, and their games on either side.

A game between two players of a set lies in the files of both. It is stored once, under the file that was read first,
so its ``player_of_file`` is one of two. What identifies players is therefore the name in the game, which it has for
both sides; files only say which names count. Names are compared as text, so that encodings do not matter, and byte for
byte where a character could not be decoded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.params import GoTrainSection
from outofcore.errors import ParamsError

if TYPE_CHECKING:
    from outofcore.store.reader import Store

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Games:
    """The games of a split and who played them.

    Attributes
    ----------
    key
        Of each game, int64 (games,), as in the rows.
    sides
        Player of Black and of White, int64 (games, 2); -1 for one who does not count.
    start, length
        First row and number of rows, int64.
    first_player
        Who made the first move: 0 Black, 1 White.
    alternating
        Whether the colours take turns.
    """

    key: Ints
    sides: Ints
    start: Ints
    length: Ints
    first_player: Ints
    alternating: npt.NDArray[np.bool_]


def find_players(store: Store, section: GoTrainSection) -> tuple[str, ...]:
    """Names of the players that count, sorted, by the train split.

    With ``players: files``, those to whom a file belongs: its first line where that is a name, else the name in most of
    its games. With ``players: names``, everybody. In both cases only who played ``min_games``.

    Raises
    ------
    ParamsError
        If fewer than two players are left.
    """
    sides = _names(store, "train")
    games = Counter(name for side in sides for name in side if name)
    names = _owners(store, sides, games) if section.players == "files" else set(games)
    chosen = tuple(sorted(name for name in names if games[name] >= section.min_games))
    if len(chosen) < 2:
        message = (
            f"go.train: of {len(names)} players {len(chosen)} have {section.min_games} games in the train split, two "
            "are needed; lower go.train.min_games, or set go.train.players to names where no file belongs to a player"
        )
        raise ParamsError(message)
    return chosen


def _owners(store: Store, sides: tuple[list[str], list[str]], games: Counter[str]) -> set[str]:
    """The player of each file; of two who are in equally many of its games, the one who has fewer elsewhere."""
    labels, lines = _column(store, "train", "player_of_file"), _column(store, "train", "first_line")
    of_file: defaultdict[str, Counter[str]] = defaultdict(Counter)
    said: dict[str, str] = {}
    for label, line, black, white in zip(labels, lines, *sides, strict=True):
        of_file[label].update({black, white} - {""})
        said.setdefault(label, line)
    owners = set()
    for label, names in of_file.items():
        likely = sorted(names, key=lambda name: (-names[name], games[name], name))
        owners.update([said[label]] if said[label] else likely[:1])
    return owners


def _names(store: Store, split: str) -> tuple[list[str], list[str]]:
    """What Black and White are known by in each game."""
    known = []
    for side in ("black", "white"):
        texts, raw = _column(store, split, side), _column(store, split, f"{side}_bytes")
        known.append([own if "\ufffd" in text else text for text, own in zip(texts, raw, strict=True)])
    return known[0], known[1]


def read_games(store: Store, split: str, names: tuple[str, ...]) -> Games:
    """The games of a split with the players of their sides."""
    number = {name: place for place, name in enumerate(names)}
    sides = [[number.get(name, -1) for name in side] for side in _names(store, split)]
    table = store.sequences(split)
    return Games(
        key=table["game"].read(),
        sides=np.array(sides, np.int64).T,
        start=table["start"].read(),
        length=table["length"].read(),
        first_player=table["first_player"].read().astype(np.int64),
        alternating=table["alternating"].read(),
    )


def entries(games: Games, least: int, first_moves: int | None) -> dict[str, Ints]:
    """Rows by player and game, for a sampler that draws players, games of each, and rows of each game.

    Only rows with the player to move: every second row, of the first moves if only those are looked at. Games in which
    the colours do not take turns, and those with fewer than ``least`` such rows, are left out.

    Returns
    -------
    dict
        One item an entry: ``group``, the player; ``first``, its first row; ``count``, its rows; ``step``, from one to
        the next: 2. All int64 (entries,).
    """
    found = []
    length = games.length if first_moves is None else np.minimum(games.length, first_moves)
    for side in (0, 1):
        offset = (games.first_player != side).astype(np.int64)
        count = (length - offset + 1) // 2
        chosen = (games.sides[:, side] >= 0) & games.alternating & (count >= least)
        found.append(np.stack([games.sides[:, side], games.start + offset, count, np.full(len(count), 2)], 1)[chosen])
    table = np.concatenate(found)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    return {
        name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(("group", "first", "count", "step"))
    }


def _column(store: Store, split: str, name: str) -> list[Any]:
    return list(store.sequences(split)[name].read())
