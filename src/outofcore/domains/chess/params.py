"""The chess section of params.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from outofcore.domains.boards.params import BoardTrainSection
from outofcore.domains.chess.codes import LARGEST_CLOCK
from outofcore.domains.chess.pgn.classes import TerminationClass, TimeClass
from outofcore.domains.chess.schema import GAME_COLUMNS, POSITION_COLUMNS, column_of
from outofcore.domains.domain import Section
from outofcore.domains.sections import DomainSection, Filters, Raw, is_unset

Variant = Literal["standard", "chess960"]
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,255}$")]

EVALUATIONS = "_eval.jsonl"
ROWS = (".parquet", ".json")
"""Ends of the names of files whose records are known by their number, not by a byte."""
RECORDS = ("_puzzle.csv", EVALUATIONS, ".ndjson", ".jsonl", *ROWS)
"""Ends of the names of files of records that are no PGN; other tables are left out."""
SUFFIXES = (".pgn", *RECORDS)


class SourceSection(Section):
    """How PGN is read."""

    engine_comments: bool = Field(
        default=False,
        description="also read comments without brackets, as engine matches have them: {+0.13/12 0.29s} of cutechess "
        "and fastchess, {wv=0.34, mt=94353, tl=1710647} of TCEC",
    )
    time_spent: bool = Field(
        default=False,
        description="also store the time that each move took: as noted ([%emt], or by engine_comments), else from the "
        "clocks before and after it and the increment of TimeControl",
    )
    tags: tuple[Tag, ...] = Field(
        (), description="further tags that are stored, as columns of text: WhiteTitle is the column white_title"
    )

    @field_validator("tags")
    @classmethod
    def _new_columns(cls, tags: tuple[str, ...]) -> tuple[str, ...]:
        names = ["start", "length", *(column.field.name for column in GAME_COLUMNS)]
        for tag in tags:
            if column_of(tag) in names:
                raise ValueError(f"{tag}: the games have a column {column_of(tag)!r} without it")
            names.append(column_of(tag))
        return tags


class FilterSection(Filters):
    """Which games and positions are kept; each filter counts its rejects under its own reason."""

    unrated_passed: ClassVar[Mapping[str, str]] = {
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
        get_args(TimeClass),
        description="by the expected length of a game, base + 40 increments, as on Lichess: below 3, 8, 25 minutes",
    )
    terminations: tuple[TerminationClass, ...] = Field(
        get_args(TerminationClass),
        description="how the game ended, by its Termination tag; unknown: no tag, other: free text",
    )
    bots: Literal["drop", "keep"] = Field("keep", description="games of an account with the title BOT")
    variants: tuple[Variant, ...] = Field(get_args(Variant), description="kinds of chess that are read")
    skip_plies: int = Field(0, ge=0, description="positions at the start of each game that are not stored")
    min_clock: int | None = Field(
        None,
        ge=0,
        le=LARGEST_CLOCK // 100,
        exclude_if=is_unset,
        description="seconds that the mover has left at least after the move, else the position is not stored, nor one "
        "without a clock; null: no bound",
    )
    min_plies: int = Field(1, ge=1, description="half-moves of the shortest game that counts")
    unfinished: Literal["drop", "keep"] = Field(
        "drop", description="games without a result (*); keep: for the moves, their value is NaN"
    )
    unterminated: Literal["reject", "tag"] = Field(
        "reject",
        description="a game without a result after its moves, which may be cut off; tag: the tag Result counts",
    )
    illegal_move: Literal["reject", "stop"] = Field(
        "reject",
        description="a move that is illegal, unreadable or null; stop: it ends the game, if min_plies come before it",
    )
    tags: dict[Tag, list[str]] = Field(
        {}, description="patterns of which a tag matches one, such as {ECO: [B2*, C0?]}; capitals count"
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
            raise ValueError(f"min_elo must not exceed max_elo, got {self.min_elo} and {self.max_elo}")
        return self


class TensorSection(Section):
    """How positions become tensors; changes no byte of the store."""

    planes: Literal[12, 18, 119] = Field(
        12,
        description="12 piece planes, 18 with White to move, four castling rights and en passant, or the 119 of "
        "AlphaZero, with the seven boards before",
    )
    view: Literal["white", "mover"] = Field(
        "mover", description="white: the board as printed; mover: seen by the side to move, its pieces first"
    )
    targets: Literal["uci", "alphazero"] = Field(
        "uci", description="move vocabulary: 1968 UCI moves, or 4672 = 8 x 8 x 73 as in AlphaZero"
    )
    legal_mask: bool = Field(default=False, description="also give the mask of legal moves")
    value: Literal["result", "evaluation"] = Field(
        "result",
        description="what value is: the result of the game, or the evaluation of the position, as expected result",
    )
    fields: tuple[str, ...] = Field((), description="stored fields that a batch has too, as they are stored")
    elo: bool = Field(
        default=False,
        description="also give the Elo of the side to move and of its opponent, which the network then takes into "
        "account, and the side to move",
    )
    mirror: bool = Field(
        default=False,
        description="mirror half of the training positions that have no castling rights left to right; "
        "the mirror image of a castling right is no legal chess",
    )

    @field_validator("fields")
    @classmethod
    def _of_positions(cls, fields: tuple[str, ...]) -> tuple[str, ...]:
        names = [column.field.name for column in POSITION_COLUMNS if column.field.name != "ply"]  # which a batch has
        for name in fields:
            if name not in names:
                raise ValueError(f"expected fields of {', '.join(names)}, got {name!r}")
        return fields


class ChessSection(DomainSection):
    """All chess settings that change the bytes of the store or the model."""

    raw: Raw = Field(description="a PGN file or folder; .zst, .gz, .bz2, .xz and archives are read as streams")
    source: SourceSection = SourceSection()
    filters: FilterSection = FilterSection()
    tensors: TensorSection = TensorSection()
    train: BoardTrainSection = BoardTrainSection()
