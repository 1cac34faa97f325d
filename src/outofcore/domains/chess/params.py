"""The chess section of params.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from outofcore.domains.domain import Section
from outofcore.domains.sections import DomainSection, Filters, Raw

TimeClass = Literal["bullet", "blitz", "rapid", "classical", "correspondence", "unknown"]
TerminationClass = Literal[
    "normal", "time forfeit", "abandoned", "adjudication", "rules infraction", "unterminated", "unknown", "other"
]
Variant = Literal["standard", "chess960"]


class SourceSection(Section):
    """How PGN is read."""

    longest_game: int = Field(
        4_194_304,
        ge=4096,
        le=2**31 - 1,
        description="bytes of the longest game; a longer one is rejected, and bounds memory so",
    )


class FilterSection(Filters):
    """Which games and positions are kept; each filter counts its rejects under its own reason."""

    let_through: ClassVar[Mapping[str, str]] = {
        "elo_unknown_kept": "have an unrated player and pass the bounds of Elo; unknown_elo: drop rejects them"
    }

    min_elo: int | None = Field(None, ge=0, le=9999, description="lowest Elo; null: no bound")
    max_elo: int | None = Field(None, ge=0, le=9999, description="highest Elo; null: no bound")
    elo_of: Literal["both", "mover"] = Field(
        "both", description="both: the game counts if both players pass; mover: the positions of a player who passes"
    )
    unknown_elo: Literal["drop", "keep"] = Field(
        "drop", description="a player without Elo fails or passes the bounds; of no effect where there are none"
    )
    rated_only: bool = Field(default=False, description="only games that say that they were rated")
    time_classes: tuple[TimeClass, ...] = Field(
        ("bullet", "blitz", "rapid", "classical", "correspondence", "unknown"),
        description="by the expected length of a game, base + 40 increments, as on Lichess: below 3, 8, 25 minutes",
    )
    terminations: tuple[TerminationClass, ...] = Field(
        ("normal", "time forfeit", "abandoned", "adjudication", "rules infraction", "unterminated", "unknown", "other"),
        description="how the game ended, by its Termination tag; unknown: no tag, other: free text",
    )
    bots: Literal["drop", "keep"] = Field("keep", description="games of an account with the title BOT")
    variants: tuple[Variant, ...] = Field(("standard", "chess960"), description="kinds of chess that are read")
    skip_plies: int = Field(0, ge=0, description="positions at the start of each game that are not stored")
    min_plies: int = Field(1, ge=1, description="half-moves of the shortest game that counts")
    max_positions: int | None = Field(
        None, ge=1, description="most positions of one game, chosen by its content; null: all"
    )
    duplicates: Literal["same_game", "same_moves", "keep"] = Field(
        "same_game",
        description="which games are dropped, wherever an equal one came before: same_game: start, moves, result, "
        "players, date and UTCTime are equal; same_moves: start and moves are, as of short draws and of one game under "
        "two spellings of a name; keep: none. Games with the same moves are always in the same split",
    )

    @model_validator(mode="after")
    def _ordered(self) -> FilterSection:
        if self.min_elo is not None and self.max_elo is not None and self.min_elo > self.max_elo:
            message = f"min_elo must not exceed max_elo, got {self.min_elo} and {self.max_elo}"
            raise ValueError(message)
        return self


class TensorSection(Section):
    """How positions become tensors; changes no byte of the store."""

    planes: Literal[12, 18] = Field(
        12, description="12 piece planes, or 18 with White to move, four castling rights and en passant"
    )
    view: Literal["white", "mover"] = Field(
        "mover", description="white: the board as printed; mover: seen by the side to move, its pieces first"
    )
    targets: Literal["uci", "alphazero"] = Field(
        "uci", description="move vocabulary: 1968 UCI moves, or 4672 = 8 x 8 x 73 as in AlphaZero"
    )
    legal_mask: bool = Field(default=False, description="also give the mask of legal moves")
    mirror: bool = Field(
        default=False,
        description="mirror half of the training positions that have no castling rights left to right; "
        "the mirror image of a castling right is no legal chess",
    )


class ChessSection(DomainSection):
    """All chess settings that change the bytes of the store or the model."""

    raw: Raw = Field(
        description="a PGN file, or a folder of them; .zst, .gz, .bz2, .xz and archives are read as streams"
    )
    source: SourceSection = SourceSection()
    filters: FilterSection = FilterSection()
    tensors: TensorSection = TensorSection()
