"""Cut raw SGF files, folders and archives into units of whole games."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from outofcore.domains.go.params import SUFFIXES, GoSection
from outofcore.domains.go.sgf.pieces import BLOCK_BYTES, NOTHING, Ending, Piece, cut
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.cutting import MemberText, cut_by, halves, split_at
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile, unpacked_name
from outofcore.raw.streams import read_block
from outofcore.raw.unit import Reject, Unit, raw_size

LONGEST_GAME = 1 << 23
"""Bytes of the longest game; it bounds what is held in memory."""
MOST_GAMES = 16_384
"""Games of a unit: what is said of each takes memory too, however short it is."""


class CutGames(NamedTuple):
    """The n games of a unit, as they were cut."""

    starts: Ints  # (n,): in the payload
    ends: Ints
    endings: Bytes  # (n,): Ending
    file: Ints  # (n,): index into the unit's stretches
    offsets: Ints  # (n,): in the decompressed file
    codecs: Mapping[int, str]  # the encodings of games whose brackets plain bytes do not show

    def span(self, number: int) -> slice:
        """A game in the payload."""
        return slice(int(self.starts[number]), int(self.ends[number]))


def units(
    files: Sequence[RawFile], section: GoSection, block: int = BLOCK_BYTES, most: int = MOST_GAMES
) -> Iterator[Unit]:
    """Cut the raw files, in order, into units of about ``block`` bytes and at most ``most`` games.

    Small files share a unit.

    The detail of each stretch is a :class:`~outofcore.domains.go.sgf.pieces.Piece` without its payload.
    """
    del section
    cutter = partial(_pieces, block=block, most=most)

    def weigh(unit: Unit) -> int:
        return max(len(unit.payload), len(pieces_of(unit)[0].starts) * block // most)

    return cut_by(cutter, files, SUFFIXES, block, weigh=weigh)


def divided(unit: Unit, section: GoSection) -> tuple[Unit, ...]:
    """The games of a unit in two units, none if it has one."""
    del section
    if len(unit.stretches) > 1:
        return halves(unit)
    piece = pieces_of(unit)[0]
    middle = len(piece.starts) // 2
    if not middle:
        return ()
    parts = (piece.part(0, middle), piece.part(middle, len(piece.starts)))
    return split_at(unit, int(piece.starts[middle]), *parts)


def pieces_of(unit: Unit) -> list[Piece]:
    """The piece of each stretch; that of one that could not be read is empty."""
    return [stretch.detail or NOTHING for stretch in unit.stretches]


def cut_games(unit: Unit) -> CutGames:
    """The games of all stretches of a unit."""
    pieces = pieces_of(unit)
    counts = [len(piece.starts) for piece in pieces]
    file = np.repeat(np.arange(len(pieces)), counts)
    before = np.array([stretch.start for stretch in unit.stretches])[file]
    starts, ends, endings = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("starts", "ends", "endings")
    )
    first = np.cumsum([0, *counts[:-1]]).tolist()
    codecs = {
        number + game: value
        for number, piece in zip(first, pieces, strict=True)
        for game, value in piece.codecs.items()
    }
    return CutGames(starts + before, ends + before, endings, file, unit.origins(starts + before)[1], codecs)


def _pieces(text: MemberText, block: int, most: int) -> Iterator[Unit]:
    """Units of one stretch; a file without games is one without any, and a game that damage interrupts is in none."""
    end = text.offset
    damage: DamagedInput | None = None

    def read(size: int) -> bytes:
        nonlocal end, damage
        if damage is not None:
            return b""
        data, damage = read_block(text.stream, size)
        end += raw_size(data, text.encoding)
        return data

    empty, first_line, path = True, b"", unpacked_name(text.file, text.name)
    for piece in cut(read, LONGEST_GAME, block, offset=text.offset, of_file=text.encoding):
        if damage is not None and _is_interrupted(piece, end, text.encoding):
            end = piece.offset + raw_size(piece.payload[: piece.starts[-1]], text.encoding)
            piece = piece.part(0, len(piece.starts) - 1)
        first_line = first_line or piece.name
        empty = empty and not len(piece.starts)
        if damage is None or len(piece.starts):
            for first in range(0, max(len(piece.starts), 1), most):
                part = piece.part(first, first + most)
                before = piece.payload[: piece.starts[first]] if first else b""
                offset = piece.offset + raw_size(before, text.encoding)
                detail = part._replace(payload=b"", name=first_line, path=path)
                yield text.unit(offset, part.payload, whole=empty, detail=detail)
    if damage is not None:
        yield text.unit(end, b"", Reject(reason=damage.reason, offset=end, detail=str(damage)))


def _is_interrupted(piece: Piece, end: int, encoding: str) -> bool:
    """Whether the last game lacks its own end and extends to the end of the text."""
    unfinished = len(piece.starts) and piece.endings[-1] in (Ending.OPEN, Ending.IN_VALUE)
    return bool(unfinished and piece.offset + raw_size(piece.payload, encoding) == end)
