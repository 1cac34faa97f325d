"""Which games are kept: the settings, and a row of :data:`FILTERS` for each reason to leave a game out.

A further filter is a setting of :class:`FilterSection` and a row of the table. Stores without it keep their bytes if
its default is None and ``exclude_if=is_unset``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, field_validator

from outofcore.domains.go.columns import Header
from outofcore.domains.go.sgf import meaning
from outofcore.domains.go.sgf.meaning import HandicapRule
from outofcore.domains.sections import Filters

Result = Literal["score", "resignation", "time", "forfeit", "win", "draw", "void", "unknown"]
BoardSize = Annotated[int, Field(ge=7, le=25)]
RANK = r"^([1-9]p|[1-9]d|([1-9]|[12][0-9]|30)k)$"


class FilterSection(Filters):
    """Which games are kept, and up to which move; each filter counts its rejects under its own reason."""

    unrated_passed: ClassVar[Mapping[str, str]] = {
        "rank_unknown_kept": "have a player without a rank, whom min_rank lets pass; unknown_rank: drop rejects them"
    }

    sizes: tuple[BoardSize, ...] = Field(
        (19,), min_length=1, description="board sizes; smaller boards are placed in the frame of the largest"
    )
    min_moves: int = Field(1, ge=1, description="moves of the shortest game that counts")
    min_rank: str | None = Field(
        None, pattern=RANK, description="lowest rank of both players, such as 1d; professional above amateur; null: any"
    )
    unknown_rank: Literal["drop", "keep"] = Field(
        "drop", description="a player without a rank fails or passes min_rank; of no effect where that is null"
    )
    handicap: Literal["drop", "keep"] = Field("keep", description="games in which Black was given stones")
    results: tuple[Result, ...] = Field(
        get_args(Result), description="how the game ended; win: the winner is known, not how"
    )
    illegal: Literal["reject", "stop"] = Field(
        "reject",
        description="a stone on a stone, a ko taken back at once, stones set up after the first move, and a suicide or "
        "a repeated position where the rules of the game forbid it: reject the game, or keep it up to there",
    )
    duplicates: Literal["drop", "keep"] = Field(
        "drop", description="games with the board and the moves of an earlier one, in whatever file"
    )

    @field_validator("sizes")
    @classmethod
    def _ordered(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(sizes)))

    @property
    def frame(self) -> int:
        """Side of the largest board, the frame for all positions."""
        return self.sizes[-1]


def _rank(game: Header, filters: FilterSection) -> str | None:
    if filters.min_rank is None:
        return None
    known = [rank for rank in (game.black_rank, game.white_rank) if rank != meaning.UNKNOWN_RANK]
    return f"a player below {filters.min_rank}" if known and min(known) < meaning.rank(filters.min_rank) else None


def is_unranked(game: Header) -> bool:
    """Whether a player has no known rank."""
    return meaning.UNKNOWN_RANK in (game.black_rank, game.white_rank)


def _shown(game: Header, name: str) -> str:
    return f"{name}[{game.latin1(name)[:40]}]"


FILTERS: Mapping[str, Callable[[Header, FilterSection], str | None]] = {
    "other_game": lambda game, _: (
        None if game.values["GM"].strip() in (b"", b"1") else f"{_shown(game, 'GM')} is not Go"
    ),
    "unreadable_size": lambda game, _: _shown(game, "SZ") if game.size < 0 else None,
    "not_square": lambda game, _: _shown(game, "SZ") if game.size == 0 else None,
    "other_size": lambda game, filters: (
        None if game.size in filters.sizes else f"{game.size} x {game.size}; filters.sizes are {list(filters.sizes)}"
    ),
    "too_many_stones": lambda game, _: (
        f"{game.handicap} stones set up on {game.size} x {game.size}" if game.handicap > game.size * game.size else None
    ),
    "handicap": lambda game, filters: (
        f"{game.handicap} stones" if game.handicap and filters.handicap == "drop" else None
    ),
    "handicap_without_stones": lambda game, _: (
        f"HA[{game.handicap_stated}], no stones, White begins" if game.handicap_rule is HandicapRule.OMITTED else None
    ),
    "result": lambda game, filters: (
        None if (kind := game.result.name.lower()) in filters.results else f"{_shown(game, 'RE')}: {kind}"
    ),
    "rank": _rank,
    "unknown_rank": lambda game, filters: (
        "a player without a rank"
        if filters.min_rank is not None and filters.unknown_rank == "drop" and is_unranked(game)
        else None
    ),
}
"""By reason, in this order: what is said of a game that is left out, None of others."""

Rejection = tuple[str, str]
"""Reason and detail."""


def refusal(game: Header, filters: FilterSection) -> Rejection | None:
    """Why a game is left out, or None."""
    for reason, detail in FILTERS.items():
        if (said := detail(game, filters)) is not None:
            return reason, said
    return None
