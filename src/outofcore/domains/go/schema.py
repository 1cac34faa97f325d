"""Stored fields of a Go game and of its positions."""

from __future__ import annotations

from collections.abc import Sequence

from outofcore.domains.go.columns import COLUMNS
from outofcore.domains.go.params import GoSection
from outofcore.raw.files import RawFile
from outofcore.store.schema import Field, Schema

STATE_COLUMNS = ("to_play", "size", "ko", "move_number")
TO_PLAY, SIZE, KO, MOVE_NUMBER = range(len(STATE_COLUMNS))


def plane_bytes(frame: int) -> int:
    """Bytes of one packed plane."""
    return (frame * frame + 7) // 8


def schemas(section: GoSection, files: Sequence[RawFile]) -> dict[str, Schema]:
    """One part, with the fields that the settings ask for."""
    del files
    frame = section.filters.frame
    width = plane_bytes(frame)
    rows: tuple[Field, ...] = (
        Field(
            name="stones",
            dtype="uint8",
            shape=(2, width),
            doc=f"black and white stones before the move, packed bits, highest first; point = row * {frame} + column",
            attributes={"frame": frame, "planes": ["black", "white"]},
        ),
        Field(
            name="state",
            dtype="int16",
            shape=(len(STATE_COLUMNS),),
            doc="side to play (0 Black, 1 White), board size, point that ko forbids it (-1: none), moves played before",
            attributes={"columns": list(STATE_COLUMNS)},
        ),
        Field(name="move", dtype="int16", doc=f"the move played: row * {frame} + column, or {frame * frame}: pass"),
        Field(
            name="game",
            dtype="int64",
            doc="first 8 bytes of the game's key (size, setup, moves), little-endian: the game of any row",
        ),
    )
    attributes = {"frame": frame, "sizes": list(section.filters.sizes)}
    sequences = tuple(column.field for column in COLUMNS)
    return {"": Schema(rows=rows, sequences=sequences, attributes=attributes)}
