"""Player identification on held-out games: half of each player's games are references, half are queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.go.learn.players import PlayedGames
from outofcore.domains.go.schema import MOVE_NUMBER, TO_PLAY
from outofcore.ndarrays import Ints

if TYPE_CHECKING:
    from outofcore.store.reader import Store

GAMES_ASKED = (1, 5, 10, 50, 100)
OPENING_MOVES = 50
_TOP = 5
_ROWS_AT_ONCE = 1 << 20


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
            own = vectors[seen & asked & (player == who)].float()
            whole = len(own) // games
            questions.append(own[: whole * games].reshape(whole, games, own.shape[1]).sum(1))
            owners.append(torch.full((whole,), who))
        if not questions:
            continue
        question, owner = torch.cat(questions), torch.cat(owners)
        if not len(question):
            continue
        likeness = (functional.normalize(question, dim=1) @ centres.T).masked_fill(~present, -2.0)
        own = likeness.gather(1, owner[:, None])
        closer, tied = (likeness > own).sum(1), (likeness == own).sum(1)
        # Players who are as close as the right one take the remaining places by lot.
        top1, top = (((places - closer) / tied).clamp(0, 1).double().mean() for places in (1, _TOP))
        answers.append(Answer(games, len(owner), float(top1), float(top)))
    return answers


def opening_maps(store: Store, split: str, panel: Panel, frame: int) -> Tensor:
    """Heat map per slot of its player's points among the first 50 moves; a baseline without training.

    float32 (slots, 2 * frame * frame): points of Black's moves, then of White's; a slot fills one half.
    """
    maps = torch.zeros(len(panel.player), 2 * frame * frame)
    if not len(panel.player):
        return maps
    for rows in store.rows(split).blocks(_ROWS_AT_ONCE, "state", "move", "game"):
        state, move, game = rows["state"], rows["move"], rows["game"]
        chosen = (state[:, MOVE_NUMBER] < OPENING_MOVES) & (move < frame * frame)
        colour = state[chosen, TO_PLAY].astype(np.int64)
        slot = slots_of(panel, game[chosen], colour)
        used = slot >= 0
        place = torch.from_numpy(colour[used] * frame * frame + move[chosen][used])
        maps.index_put_((torch.from_numpy(slot[used]), place), torch.ones(int(used.sum())), accumulate=True)
    return maps


def slots_of(panel: Panel, game: Ints, colour: Ints) -> Ints:
    """Slot of each row, or -1."""
    place = np.minimum(np.searchsorted(panel.key, game), len(panel.key) - 1)
    slots: Ints = np.where(panel.key[place] == game, panel.slot[place, colour], -1)
    return slots
