"""Stored fields of a Go game and of its positions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from outofcore.domains.go.params import GoSection
from outofcore.domains.go.sgf.meaning import HandicapRule, KomiRule, ResultKind, Ruleset, Scoring
from outofcore.domains.go.sgf.names import NameRule
from outofcore.raw.files import RawFile
from outofcore.store.schema import Field, Schema

STATE_COLUMNS = ("to_play", "size", "ko", "move_number")
TO_PLAY, SIZE, KO, MOVE_NUMBER = range(len(STATE_COLUMNS))


def plane_bytes(frame: int) -> int:
    """Bytes of one packed plane."""
    return (frame * frame + 7) // 8


def _codes(codes: type[IntEnum]) -> dict[str, Any]:
    return {"codes": {code.name.lower(): int(code) for code in codes}}


def schemas(section: GoSection, files: Sequence[RawFile]) -> dict[str, Schema]:
    """One part, with the fields that the settings ask for."""
    del files
    return {"": schema(section)}


def schema(section: GoSection) -> Schema:
    """Tables of the store for these settings."""
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
    return Schema(rows=rows, sequences=_sequences(), attributes={"frame": frame, "sizes": list(section.filters.sizes)})


def _sequences() -> tuple[Field, ...]:
    return (
        Field(name="game", dtype="int64", doc="as in the rows"),
        Field(name="black", dtype="string", fill="", doc="name of Black (PB), decoded by name_rule"),
        Field(name="white", dtype="string", fill="", doc="name of White (PW), decoded by name_rule"),
        Field(name="black_bytes", dtype="string", fill="", doc="PB as in the file, one character (latin-1) per byte"),
        Field(name="white_bytes", dtype="string", fill="", doc="PW as in the file, one character (latin-1) per byte"),
        Field(name="name_rule", dtype="uint8", doc="how names were decoded", attributes=_codes(NameRule)),
        Field(
            name="black_rank",
            dtype="int8",
            doc="9 dan 9, 1 dan 1, 1 kyu 0, 30 kyu -29, professional + 100; -128 unknown",
        ),
        Field(name="white_rank", dtype="int8", doc="as black_rank"),
        Field(name="size", dtype="uint8", doc="side of the board"),
        Field(name="komi", dtype="float32", fill=0.0, doc="points for White, by komi_rule; NaN unknown"),
        Field(name="komi_raw", dtype="string", fill="", doc="KM as in the file"),
        Field(name="komi_rule", dtype="uint8", doc="how komi was read", attributes=_codes(KomiRule)),
        Field(name="handicap", dtype="int16", doc="stones that Black was given, by handicap_rule"),
        Field(name="handicap_stated", dtype="int16", doc="HA as in the file; -1: missing, or no number"),
        Field(name="handicap_rule", dtype="uint8", doc="how the handicap was found", attributes=_codes(HandicapRule)),
        Field(name="rules", dtype="uint8", doc="ruleset (RU)", attributes=_codes(Ruleset)),
        Field(name="scoring", dtype="uint8", doc="what is counted, by RU", attributes=_codes(Scoring)),
        Field(name="winner", dtype="int8", doc="1 Black, -1 White, 0 nobody or unknown"),
        Field(name="result", dtype="uint8", doc="how the game ended (RE)", attributes=_codes(ResultKind)),
        Field(name="margin", dtype="float32", fill=0.0, doc="points that the winner was ahead; NaN where not counted"),
        Field(name="date", dtype="int32", doc="year * 10000 + month * 100 + day, 00 for what is unknown"),
        Field(name="first_player", dtype="int8", doc="who made the first move: 0 Black, 1 White"),
        Field(name="alternating", dtype="bool", doc="whether the colours take turns in all moves"),
        Field(
            name="player_of_file",
            dtype="string",
            fill="",
            doc="path of the file without its ending: whose games it holds",
        ),
        Field(name="first_line", dtype="string", fill="", doc="the file's first line where it is a name and no SGF"),
        Field(
            name="source", dtype="string", fill="", doc="path of the file, below the raw folder or inside the archive"
        ),
        Field(name="offset", dtype="int64", doc="byte of the decompressed file at which the game begins"),
    )
