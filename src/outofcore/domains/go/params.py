"""The go section of params.yaml."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from outofcore.checks import MOST
from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.domain import Section
from outofcore.domains.go.filters import FilterSection
from outofcore.domains.sections import DomainSection, Raw

SUFFIXES = (".sgf", ".sgfs")


class TensorSection(Section):
    """How positions become tensors; changes no byte of the store."""

    features: Literal["planes3", "alphagozero18", "planes8"] = Field(
        "planes3",
        description="planes3: own stones, the opponent's, the ko point; alphagozero18: own and the opponent's stones "
        "now and 7 moves back, and two planes for the side to move; planes8: planes3 and the last five moves, and "
        "globals: passes, komi, handicap, ranks, rules",
    )
    value: bool = Field(default=False, description="also who won and by how much, and a network that learns both")
    symmetries: bool = Field(
        default=False,
        description="turn and mirror each training sample at random, planes and move together; a player's style is "
        "partly in his corners, so leave it false there",
    )


class GoTrainSection(BoardTrainSection):
    """What to learn from the games."""

    task: Literal["policy", "style"] = Field("policy", description="policy: the next move; style: whose game is it")
    players: Literal["files", "names"] = Field(
        "files", description="style: the players are those to whom a file each belongs, or everybody by name"
    )
    min_games: int = Field(20, ge=2, le=MOST, description="style: games in a split below which a player does not count")
    players_per_batch: int = Field(18, ge=2, le=2**16, description="style: players of a batch")
    games_per_player: int = Field(9, ge=2, le=2**16, description="style: games of each, in a batch")
    positions_per_game: int = Field(
        10, ge=1, le=2**16, description="style: positions of each, with that player to move"
    )
    first_moves: int | None = Field(
        50, ge=2, le=MOST, description="style: moves of a game that are looked at, from its first; null: all"
    )

    @model_validator(mode="after")
    def _own_of_policy(self) -> GoTrainSection:
        if self.task == "style" and ":" in self.network:
            raise ValueError(f"expected network residual with task style, got {self.network}")
        return self


class GoSection(DomainSection):
    """All Go settings that change the bytes of the store or the model."""

    raw: Raw = Field(description="an SGF file or folder; .zst, .gz, .bz2, .xz and archives are read as streams")
    filters: FilterSection = FilterSection()
    tensors: TensorSection = TensorSection()
    train: GoTrainSection = GoTrainSection()
