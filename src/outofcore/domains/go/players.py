"""Which players' games these are: by file or by name, on either side; and how well players are identified.

A game between two players of a set is in the files of both but stored once, under the file read first, so
``player_of_file`` names only one of them. Players are therefore identified by the names in the game; files only decide
which names count. Names are compared as text, independent of encoding, and as bytes where a character could not be
decoded. To identify them, half of each player's held-out games are references, half are queries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.go.params import GoTrainSection
from outofcore.domains.go.schema import MOVE_NUMBER, TO_PLAY
from outofcore.errors import ParamsError
from outofcore.ndarrays import Ints
from outofcore.store.reader import Store

GAMES_ASKED = (1, 5, 10, 50, 100)
OPENING_MOVES = 50
_TOP = 5
_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class PlayedGames:
    """The games of a split and their players."""

    key: Ints  # (games,) int64, as in the rows
    sides: Ints  # (games, 2) int64: player as Black and as White; -1 if not counted
    start: Ints  # first row
    length: Ints  # rows
    first_player: Ints  # who moved first: 0 Black, 1 White
    alternating: npt.NDArray[np.bool_]  # the colours take turns


def find_players(store: Store, section: GoTrainSection) -> tuple[str, ...]:
    """Sorted names of the players that count, from the train split.

    With ``players: files``, the owners of files: the first line if it is a name, else the name in most of its games;
    with ``players: names``, everybody. Players with fewer than ``min_games`` are dropped; ParamsError if fewer than two
    remain.
    """
    games = Counter(name for side in _names(store, "train") for name in side if name)
    names = set(file_owners(store, "train").values()) if section.players == "files" else set(games)
    chosen = tuple(sorted(name for name in names if games[name] >= section.min_games))
    if len(chosen) < 2:
        raise ParamsError(
            f"go.train: of {len(names)} players {len(chosen)} have {section.min_games} games in the train split, two "
            "are needed; lower go.train.min_games, or set go.train.players to names where no file belongs to a player"
        )
    return chosen


def check_players(store: Store, section: GoTrainSection) -> None:
    """Raise ParamsError if the train split has fewer players than a batch."""
    games = read_games(store, "train", find_players(store, section))
    players = len(np.unique(entries(games, section.positions_per_game, section.first_moves)["group"]))
    if players < section.players_per_batch:
        raise ParamsError(
            f"go.train.players_per_batch: expected at most {players}, the players in the train split with games long "
            f"enough, got {section.players_per_batch}; lower it, or convert games of more players"
        )


def file_owners(store: Store, split: str) -> dict[str, str]:
    """The player of each file of which one is known, by ``player_of_file``.

    The file's first line if somebody in it has that name, else the name in most of its games; on ties the one with
    fewer games elsewhere.
    """
    sides = _names(store, split)
    games = Counter(name for side in sides for name in side if name)
    table = store.sequences(split)
    files, lines = table["player_of_file"].read(), table["first_line"].read()
    of_file: defaultdict[str, Counter[str]] = defaultdict(Counter)
    first_line: dict[str, str] = {}
    for file, line, black, white in zip(files, lines, *sides, strict=True):
        of_file[file].update({black, white} - {""})
        first_line.setdefault(file, line)
    owners = {}
    for file, names in of_file.items():
        likely = sorted(names, key=lambda name: (-names[name], games[name], name))
        if likely:
            owners[file] = first_line[file] if first_line[file] in names else likely[0]
    return owners


def _names(store: Store, split: str) -> tuple[list[str], list[str]]:
    """Names identifying Black and White in each game."""
    table, known = store.sequences(split), []
    for side in ("black", "white"):
        texts, raw = table[side].read(), table[f"{side}_bytes"].read()
        known.append([bytes_ if "\ufffd" in text else text for text, bytes_ in zip(texts, raw, strict=True)])
    return known[0], known[1]


def read_games(store: Store, split: str, names: tuple[str, ...]) -> PlayedGames:
    """The games of a split with the players of both sides; raises DamagedStore if the games do not cover the rows."""
    numbers = {name: number for number, name in enumerate(names)}
    sides = [[numbers.get(name, -1) for name in side] for side in _names(store, split)]
    table = store.sequences(split)
    start, length = store.extents(split)
    return PlayedGames(
        key=table["game"].read(),
        sides=np.array(sides, np.int64).T,
        start=start,
        length=length,
        first_player=table["first_player"].read().astype(np.int64),
        alternating=table["alternating"].read(),
    )


def entries(games: PlayedGames, least: int, first_moves: int | None) -> dict[str, Ints]:
    """Rows by player and game, for a sampler over players, their games, and rows of each game.

    Only rows with the player to move: every second row, from the opening if so configured. Games without strictly
    alternating colours, or with fewer than ``least`` such rows, are left out. All (entries,) int64: ``group`` (player),
    ``first`` row, ``count`` of rows, ``step`` (2).
    """
    tables = []
    length = games.length if first_moves is None else np.minimum(games.length, first_moves)
    for side in (0, 1):
        offset = (games.first_player != side).astype(np.int64)
        count = (length - offset + 1) // 2
        chosen = (games.sides[:, side] >= 0) & games.alternating & (count >= least)
        tables.append(np.stack([games.sides[:, side], games.start + offset, count, np.full(len(count), 2)], 1)[chosen])
    table = np.concatenate(tables)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    return dict(zip(("group", "first", "count", "step"), np.ascontiguousarray(table.T), strict=True))


class Answer(NamedTuple):
    """Identification accuracy."""

    games: int  # games per query
    questions: int
    top1: float  # share of queries whose player is ranked first
    top5: float  # share of queries whose player is among the first five


@dataclass(frozen=True, eq=False)
class Panel:
    """The held-out games in use; a slot is a game seen from one side."""

    key: Ints  # (games,) int64, ascending
    slot: Ints  # (games, 2) int64: slot of Black and of White, -1 if unused
    player: Ints  # (slots,)
    asked: npt.NDArray[np.bool_]  # (slots,) bool: query rather than reference


def choose_panel(games: PlayedGames, most: int = 2 * GAMES_ASKED[-1]) -> Panel:
    """Up to ``most`` games per player with two or more, in key order, alternating between reference and query."""
    order = np.argsort(games.key, kind="stable")
    key, sides = games.key[order], games.sides[order]
    slot = np.full(sides.shape, -1, np.int64)
    player: list[int] = []
    asked: list[bool] = []
    number = np.bincount(sides[sides >= 0], minlength=1)
    seen = np.zeros(len(number), np.int64)
    for game, side in np.argwhere(sides >= 0):
        who = int(sides[game, side])
        if number[who] > 1 and seen[who] < most:
            slot[game, side] = len(player)
            player.append(who)
            asked.append(bool(seen[who] % 2))
            seen[who] += 1
    return Panel(key, slot, np.array(player, np.int64), np.array(asked, np.bool_))


def identify(vectors: Tensor, panel: Panel) -> list[Answer]:
    """Identify each player from 1, 5, 10 and more games by cosine similarity; all-zero slots were never seen."""
    player, asked = torch.from_numpy(panel.player), torch.from_numpy(panel.asked)
    seen = vectors.abs().sum(1) > 0
    known = seen & ~asked
    count = int(player.max()) + 1 if len(player) else 0
    centres = torch.zeros(count, vectors.shape[1]).index_add_(0, player[known], vectors[known].float())
    present = torch.bincount(player[known], minlength=count) > 0
    centres = functional.normalize(centres, dim=1)
    answers = []
    for games in GAMES_ASKED:
        questions, owners = [], []
        for who in torch.nonzero(present).flatten().tolist():
            asked_with = vectors[seen & asked & (player == who)].float()
            number = len(asked_with) // games
            questions.append(asked_with[: number * games].reshape(number, games, vectors.shape[1]).sum(1))
            owners.append(torch.full((number,), who))
        if not any(map(len, questions)):
            continue
        question, owner = torch.cat(questions), torch.cat(owners)
        likeness = (functional.normalize(question, dim=1) @ centres.T).masked_fill(~present, -2.0)
        right = likeness.gather(1, owner[:, None])
        closer, tied = (likeness > right).sum(1), (likeness == right).sum(1)
        # Players who are as close as the right one take the remaining places by lot.
        top1, top = (((places - closer) / tied).clamp(0, 1).double().mean() for places in (1, _TOP))
        answers.append(Answer(games, len(owner), float(top1), float(top)))
    return answers


def opening_maps(store: Store, split: str, panel: Panel, frame: int) -> Tensor:
    """Heat map per slot of its player's points among the first 50 moves; a baseline without training.

    float32 (slots, 2 * frame * frame): points of Black's moves, then of White's; a slot fills one half.
    """
    maps = torch.zeros(len(panel.player), 2 * frame * frame)
    key, slots = torch.from_numpy(panel.key), torch.from_numpy(panel.slot)
    for rows in store.rows(split).blocks(_ROWS_AT_ONCE, "state", "move", "game"):
        state, move, game = rows["state"], rows["move"], rows["game"]
        chosen = (state[:, MOVE_NUMBER] < OPENING_MOVES) & (move < frame * frame)
        side, point = (torch.from_numpy(array[chosen].astype(np.int64)) for array in (state[:, TO_PLAY], move))
        slot, _ = look_up(key, slots, torch.from_numpy(game[chosen]), side)
        used = slot >= 0
        point += side * frame * frame
        maps.index_put_((slot[used], point[used]), torch.ones(()), accumulate=True)
    return maps


def look_up(keys: Tensor, values: Tensor, game: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """Value per row from a table (games, 2) with ascending keys, -1 if the game is missing; the game's index in it."""
    if not len(keys):
        return torch.full_like(game, -1), torch.zeros_like(game)
    index = torch.searchsorted(keys, game).clamp(max=len(keys) - 1)
    return torch.where(keys[index] == game, values[index, side], -1), index
