"""The go section of params.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.domain import Section
from outofcore.domains.sections import MOST, DomainSection, Filters, RawOrNamed

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
        ("score", "resignation", "time", "forfeit", "win", "draw", "void", "unknown"),
        description="how the game ended; win: the winner is known, not how",
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


class GoSection(DomainSection):
    """All Go settings that change the bytes of the store or the model."""

    raw: RawOrNamed = Field(
        description="an SGF file or folder, or several by name; .zst, .gz, .bz2, .xz and archives are read as streams"
    )
    filters: FilterSection = FilterSection()
    tensors: TensorSection = TensorSection()
    train: GoTrainSection = GoTrainSection()
