"""Whose games are these? Held-out games of each player, half to know him by, half to ask with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from outofcore.domains.go.learn.players import Games
from outofcore.domains.go.play.engine import MOVE_NUMBER, TO_PLAY

if TYPE_CHECKING:
    from outofcore.store.reader import Store

GAMES_ASKED = (1, 5, 10, 50, 100)
OPENING_MOVES = 50
_TOP = 5
_ROWS_AT_ONCE = 1 << 20

Ints = npt.NDArray[np.int64]


class Answer(NamedTuple):
    """How often the player was found.

    Attributes
    ----------
    games
        Games that were asked with.
    questions
        How many questions there were.
    top1, top5
        Share of questions whose player came first, and among the first five.
    """

    games: int
    questions: int
    top1: float
    top5: float


@dataclass(frozen=True, eq=False)
class Panel:
    """The held-out games that are used; a slot is a game seen from one side.

    Attributes
    ----------
    key
        Of each game, ascending, int64 (games,).
    slot
        Of Black and of White, int64 (games, 2); -1: not used.
    player
        Of each slot, int64 (slots,).
    asked
        Whether a slot belongs to questions, or to what the player is known by; bool (slots,).
    """

    key: Ints
    slot: Ints
    player: Ints
    asked: npt.NDArray[np.bool_]


def choose_panel(games: Games, most: int = 2 * GAMES_ASKED[-1]) -> Panel:
    """Take up to ``most`` games of each player, in the order of their keys, in turn to know him by and to ask with.

    A player with a single game, and the other side of each game, do not matter here.
    """
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
    """Ask for each player with 1, 5, 10 and more of his games, every game once, whose they are; cosines answer.

    Parameters
    ----------
    vectors
        What is known of each slot, float (slots, dimensions); what belongs together is added up. A slot of zeros was
        never seen and counts for nobody.

    Returns
    -------
    list
        One answer for each number of games that some player has.
    """
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
        rank = (likeness > likeness.gather(1, owner[:, None])).sum(1)
        answers.append(
            Answer(games, len(owner), float((rank == 0).double().mean()), float((rank < _TOP).double().mean()))
        )
    return answers


def opening_maps(store: Store, split: str, panel: Panel, frame: int) -> Tensor:
    """Heat map of each slot: where its player moved among the first 50 moves of the game, by colour; needs no training.

    Returns
    -------
    Tensor
        float32 (slots, 2 * frame * frame): first the points of Black's moves, then of White's; a slot fills one half.
    """
    maps = torch.zeros(len(panel.player), 2 * frame * frame)
    if not len(panel.player):
        return maps
    rows = store.rows(split)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, len(rows))
        state, move, game = (rows[name].read(start, stop) for name in ("state", "move", "game"))
        chosen = (state[:, MOVE_NUMBER] < OPENING_MOVES) & (move < frame * frame)
        colour = state[chosen, TO_PLAY].astype(np.int64)
        slot = slots_of(panel, game[chosen], colour)
        used = slot >= 0
        place = torch.from_numpy(colour[used] * frame * frame + move[chosen][used])
        maps.index_put_((torch.from_numpy(slot[used]), place), torch.ones(int(used.sum())), accumulate=True)
    return maps


def slots_of(panel: Panel, game: Ints, colour: Ints) -> Ints:
    """The slot of each row; -1 for rows that belong to none."""
    place = np.minimum(np.searchsorted(panel.key, game), len(panel.key) - 1)
    slots: Ints = np.where(panel.key[place] == game, panel.slot[place, colour], -1)
    return slots
