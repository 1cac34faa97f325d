"""Stored fields of positions and games: a row of a table for each.

A further one is a row here, filled from what python-chess reads as well to check it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.boards.columns import Column, game_column
from outofcore.domains.chess import codes
from outofcore.domains.chess.pgn.classes import increment
from outofcore.store.schema import Schema

if TYPE_CHECKING:
    from outofcore.domains.chess.convert import ReplayedGames
    from outofcore.domains.domain import Section


def _position_evaluation(games: ReplayedGames) -> npt.NDArray[np.int16]:
    """As noted after the move before, or by the search that chose the move."""
    notes = games.notes
    noted = np.where(notes.mate != 0, np.sign(notes.mate) * np.int16(codes.MATED), notes.evaluation)
    before = np.full(len(noted), codes.NO_EVALUATION, np.int16)
    before[1:] = np.where((games.ply[1:] > 0) & ~notes.searched[:-1], noted[:-1], codes.NO_EVALUATION)
    return np.where(notes.searched, noted, before)


def _time_spent(games: ReplayedGames) -> npt.NDArray[np.int32]:
    """As noted, or by the clocks, where these show it."""
    clock, spent = games.notes.clock, games.notes.spent.copy()
    first_clocks = games.games.first_clocks[games.accepted].tolist()
    controls = zip(games.texts("TimeControl"), first_clocks, strict=True)
    gains = [[increment(control, clock) for clock in of_players] for control, of_players in controls]
    increments = games.repeated(np.array(gains).reshape(-1, 2))[np.arange(len(clock)), games.ply & 1]
    before = np.full(len(clock), codes.NO_CLOCK)
    before[2:] = clock[:-2]
    took = before + increments - clock
    by_clock = (
        (spent == codes.NO_CLOCK) & (games.ply >= 2) & (increments >= 0) & (before >= 0) & (clock >= 0) & (took >= 0)
    )
    spent[by_clock] = np.minimum(took[by_clock], codes.LARGEST_CLOCK)
    return spent


POSITION_COLUMNS = (
    game_column(
        "squares",
        "uint8",
        "pieces on two squares per byte: in [pair, file], the lower four bits are the square of that file on rank "
        "2 * pair + 1, the upper four the square above it; 0: empty",
        lambda games: games.boards["squares"],
        {"codes": codes.CODES},
        shape=(4, 8),
    ),
    game_column(
        "state",
        "uint8",
        "side to move (0 White, 1 Black), castling rights (bits KQkq from the lowest; in Chess960 a right belongs to "
        "the outermost rook on that side of the king, with its bit shifted left by 4 set as well to the one next to "
        "the king), file of the pawn that has just gone two squares, whether it can be taken or not (255: none), "
        "halfmove clock (at most 255)",
        lambda games: games.boards["state"],
        {"columns": list(codes.STATE), "castling_bits": codes.CASTLING_BITS},
        shape=(4,),
    ),
    game_column("ply", "uint16", "half-moves since the first position of the game"),
    game_column(
        "move",
        "uint16",
        "move played: from | to << 6 | promotion << 12 (0 none, 1 N, 2 B, 3 R, 4 Q); castling is the king's move "
        "(e1g1), in Chess960 the king to its rook's square",
        lambda games: games.boards["move"],
    ),
    game_column(
        "result",
        "int8",
        "result of the game for White: 1, 0, -1; -128: unfinished",
        lambda games: games.repeated(games.facts.result),
    ),
    game_column(
        "clock",
        "int32",
        "centiseconds left to the mover after the move; -1: not noted",
        lambda games: games.notes.clock,
        fill=codes.NO_CLOCK,
    ),
    game_column(
        "evaluation",
        "int16",
        "centipawns for White after the move, as noted in the file; -32768: not noted",
        lambda games: games.notes.evaluation,
        fill=codes.NO_EVALUATION,
    ),
    game_column(
        "mate",
        "int8",
        "moves to mate after the move, as noted in the file; positive: White mates; 0: not noted",
        lambda games: games.notes.mate,
        fill=codes.NO_MATE,
    ),
    game_column(
        "position_evaluation",
        "int16",
        "centipawns for White of the position before the move: noted after the move before ([%eval]), or by the engine "
        "that chose the move; a mate is 32767 or -32767; -32768: not noted",
        _position_evaluation,
        fill=codes.NO_EVALUATION,
    ),
    game_column(
        "time_spent",
        "int32",
        "centiseconds that the move took, as noted or by the clocks; -1: unknown",
        _time_spent,
        setting="time_spent",
        fill=codes.NO_CLOCK,
    ),
)


def position_columns(source: Section) -> tuple[Column, ...]:
    """The columns of positions that the settings ask for."""
    return tuple(column for column in POSITION_COLUMNS if not column.setting or getattr(source, column.setting))


def column_of(tag: str) -> str:
    """Column in which a tag is stored: ``WhiteTitle`` in ``white_title``, ``ECO`` in ``eco``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", tag).lower()


def _tag_column(tag: str) -> Column:
    """The text of a tag, empty where it is missing."""
    return game_column(column_of(tag), "string", f"{tag} tag", lambda games: games.texts(tag), tag=tag)


GAME_COLUMNS = (
    game_column("white_elo", "int16", "Elo of White; 0: unknown", lambda games: games.facts.elo[:, 0]),
    game_column("black_elo", "int16", "Elo of Black; 0: unknown", lambda games: games.facts.elo[:, 1]),
    game_column(
        "date",
        "int32",
        "yyyymmdd; a part that is unknown, wholly or in one digit, is 0",
        lambda games: games.facts.date,
    ),
    _tag_column("TimeControl"),
    _tag_column("Termination"),
    game_column(
        "variant",
        "uint8",
        "kind of chess",
        lambda games: games.facts.variant,
        {"names": [codes.VARIANT_NAMES[code] for code in sorted(codes.VARIANT_NAMES)]},
    ),
    game_column("result", "int8", "result for White: 1, 0, -1; -128: unfinished", lambda games: games.facts.result),
    game_column("plies", "uint16", "half-moves of the whole game, stored or not"),
    game_column(
        "source",
        "uint32",
        "raw file that it comes from, a row of sources",
        lambda games: [stretch.source for stretch in games.stretches],
    ),
    game_column(
        "member",
        "uint32",
        "file inside that archive, in its order; 0 where it is no archive",
        lambda games: [stretch.member for stretch in games.stretches],
    ),
    game_column("offset", "uint64", "byte at which the game begins in the decompressed file"),
)


def game_columns(tags: Iterable[str]) -> tuple[Column, ...]:
    """The columns of games: those of every store, and the tags that the settings add."""
    return (*GAME_COLUMNS, *map(_tag_column, tags))


def schemas(section: Any, files: Sequence[object]) -> dict[str, Schema]:
    """One part, with the fields that the settings ask for."""
    del files
    rows, sequences = position_columns(section.source), game_columns(section.source.tags)
    return {"": Schema(rows=tuple(row.field for row in rows), sequences=tuple(game.field for game in sequences))}
