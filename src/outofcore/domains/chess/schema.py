"""Stored fields of positions and games."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.store.schema import Field, Schema

PIECES = ("P", "N", "B", "R", "Q", "K", "p", "n", "b", "r", "q", "k")
"""Planes in order, by the letters of FEN."""
CODES = dict(zip(PIECES, (1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14), strict=True))
"""Pieces as they are stored; 0 is an empty square."""

STATE = ("side_to_move", "castling", "en_passant_file", "halfmove_clock")
WHITE_TO_MOVE, BLACK_TO_MOVE = 0, 1
CASTLING_BITS = {"K": 1, "Q": 2, "k": 4, "q": 8}
INNER_ROOK_SHIFT = 4
"""Shift of a castling bit whose right, in Chess960, belongs to the rook next to the king, not the outermost."""
NO_EN_PASSANT = 255
LARGEST_HALFMOVE_CLOCK = 255
LARGEST_PLY = 65535
NO_CLOCK, NO_EVALUATION, NO_MATE = -1, -32768, 0
LARGEST_CLOCK, LARGEST_EVALUATION, LARGEST_MATE = 2**31 - 1, 32766, 127
MATED = 32767
"""Evaluation of a position with a mate, in centipawns; negative if Black mates."""
UNFINISHED = -128
"""Result of a game that has none."""
STANDARD, CHESS960, OTHER_VARIANT = 0, 1, 255
VARIANT_NAMES = {STANDARD: "standard", CHESS960: "chess960"}


class TagColumn(NamedTuple):
    """A column of the games that is read from a tag."""

    tag: str
    field: Field
    parse: Callable[[str], Any] = str  # of its text, which is empty where the tag is missing


TAG_COLUMNS = (
    TagColumn("TimeControl", Field(name="time_control", dtype="string", fill="", doc="TimeControl tag")),
    TagColumn("Termination", Field(name="termination", dtype="string", fill="", doc="Termination tag")),
)
"""Columns of every store: a further tag that is stored is a row here. Elo, date, variant and result decide more."""

SCHEMA = Schema(
    rows=(
        Field(
            name="squares",
            dtype="uint8",
            shape=(4, 8),
            doc="pieces on two squares per byte: in [pair, file], the lower four bits are the square of that file on "
            "rank 2 * pair + 1, the upper four the square above it; 0: empty",
            attributes={"codes": CODES},
        ),
        Field(
            name="state",
            dtype="uint8",
            shape=(4,),
            doc="side to move (0 White, 1 Black), castling rights (bits KQkq from the lowest; in Chess960 a right "
            "belongs to the outermost rook on that side of the king, with its bit shifted left by 4 set as well to the "
            "one next to the king), file of the pawn that has just gone two squares, whether it can be taken or not "
            "(255: none), halfmove clock (at most 255)",
            attributes={"columns": list(STATE), "castling_bits": CASTLING_BITS},
        ),
        Field(name="ply", dtype="uint16", doc="half-moves since the first position of the game"),
        Field(
            name="move",
            dtype="uint16",
            doc="move played: from | to << 6 | promotion << 12 (0 none, 1 N, 2 B, 3 R, 4 Q); castling is the king's "
            "move (e1g1), in Chess960 the king to its rook's square",
        ),
        Field(name="result", dtype="int8", doc="result of the game for White: 1, 0, -1; -128: unfinished"),
        Field(
            name="clock",
            dtype="int32",
            fill=NO_CLOCK,
            doc="centiseconds left to the mover after the move; -1: not noted",
        ),
        Field(
            name="evaluation",
            dtype="int16",
            fill=NO_EVALUATION,
            doc="centipawns for White after the move, as noted in the file; -32768: not noted",
        ),
        Field(
            name="mate",
            dtype="int8",
            fill=NO_MATE,
            doc="moves to mate after the move, as noted in the file; positive: White mates; 0: not noted",
        ),
        Field(
            name="position_evaluation",
            dtype="int16",
            fill=NO_EVALUATION,
            doc="centipawns for White of the position before the move: noted after the move before ([%eval]), or by "
            "the engine that chose the move; a mate is 32767 or -32767; -32768: not noted",
        ),
    ),
    sequences=(
        Field(name="white_elo", dtype="int16", doc="Elo of White; 0: unknown"),
        Field(name="black_elo", dtype="int16", doc="Elo of Black; 0: unknown"),
        Field(name="date", dtype="int32", doc="yyyymmdd; a part that is unknown, wholly or in one digit, is 0"),
        *(column.field for column in TAG_COLUMNS),
        Field(
            name="variant",
            dtype="uint8",
            doc="kind of chess",
            attributes={"names": [VARIANT_NAMES[code] for code in sorted(VARIANT_NAMES)]},
        ),
        Field(name="result", dtype="int8", doc="result for White: 1, 0, -1; -128: unfinished"),
        Field(name="plies", dtype="uint16", doc="half-moves of the whole game, stored or not"),
        Field(name="source", dtype="uint32", doc="raw file that it comes from, a row of sources"),
        Field(name="member", dtype="uint32", doc="file inside that archive, in its order; 0 where it is no archive"),
        Field(name="offset", dtype="uint64", doc="byte at which the game begins in the decompressed file"),
    ),
)


TIME_SPENT = Field(
    name="time_spent",
    dtype="int32",
    fill=NO_CLOCK,
    doc="centiseconds that the move took, as noted or by the clocks; -1: unknown",
)


def column_of(tag: str) -> str:
    """Column in which a tag is stored: ``WhiteTitle`` in ``white_title``, ``ECO`` in ``eco``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", tag).lower()


def tag_columns(section: Any) -> tuple[TagColumn, ...]:
    """Columns that are read from tags: of every store, and those that the settings add."""
    fields = {tag: Field(name=column_of(tag), dtype="string", fill="", doc=f"{tag} tag") for tag in section.source.tags}
    return (*TAG_COLUMNS, *(TagColumn(tag, field) for tag, field in fields.items()))


def schemas(section: Any, files: Sequence[object]) -> dict[str, Schema]:
    """One part, with the fields that the settings ask for."""
    del files
    tags = tuple(column.field for column in tag_columns(section)[len(TAG_COLUMNS) :])
    rows = (TIME_SPENT,) if section.source.time_spent else ()
    return {"": replace(SCHEMA, rows=SCHEMA.rows + rows, sequences=SCHEMA.sequences + tags)}


def empty_rows(count: int) -> dict[str, npt.NDArray[Any]]:
    """Uninitialised row fields for ``count`` positions."""
    return {field.name: np.empty((count, *field.shape), field.dtype) for field in SCHEMA.rows}
