"""Cut raw SGF files, folders and archives into units of whole games."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.params import GoSection
from outofcore.domains.go.sgf.pieces import BLOCK_BYTES, Piece, cut
from outofcore.domains.go.sgf.scan import Ending
from outofcore.raw.blocks import read_block
from outofcore.raw.files import Member, RawFile, plain_name
from outofcore.raw.gather import gathered
from outofcore.raw.unit import Reject, Unit

SUFFIXES = (".sgf",)
LONGEST_GAME = 1 << 23
"""Bytes of the longest game; it bounds what is held in memory."""
NO_GAME = Reject(reason="no_game", offset=0, detail="no game begins anywhere in the file")

_OF_GAMES = ("starts", "ends", "endings", "offsets")
_BY_GAME = ("trees", "codecs")  # of some games, by their number
_NOTHING = Piece(0, b"", np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8), 0, b"")


def units(files: Sequence[RawFile], section: GoSection, block: int = BLOCK_BYTES) -> Iterator[Unit]:
    """Cut the raw files, in order, into units of about ``block`` bytes at game boundaries; small files share one.

    A unit's ``detail`` holds ``starts``, ``ends`` and ``endings`` of its games; ``trees``, the whole tree of each that
    is only part of one; ``codecs``, the encodings of games whose brackets plain bytes do not show; ``offsets``, the
    byte of each in its decompressed file; ``file``, the index of each one's file; ``files``, for each file its path
    below the raw folder, archives counting as folders, a name in a first line that is not SGF, and whether it is
    UTF-16; ``stray``, bytes outside games; ``rejects``, files without a game, or whose rest cannot be read.
    """
    del section
    return gathered(_of_files(files, block), block, _joined)


def divided(unit: Unit, section: GoSection) -> tuple[Unit, ...] | None:
    """The games of a unit in two units, none if it has one; what is counted without a game first in one of its own."""
    del section
    detail, games = unit.detail, len(unit.detail["starts"])
    others = {name: detail[name] for name in ("files", "stray", "rejects")}
    if not games:
        return None
    if others["stray"] or others["rejects"]:
        return replace(unit, detail={**_some(unit, 0, 0).detail, **others}), _some(unit, 0, games)
    return (_some(unit, 0, games // 2), _some(unit, games // 2, games)) if games > 1 else ()


def _some(unit: Unit, first: int, last: int) -> Unit:
    """The games of a unit from ``first`` to before ``last`` alone, with their files."""
    detail = unit.detail
    file = detail["file"][first:last]
    low, high = (int(file[0]), int(file[-1]) + 1) if len(file) else (0, 1)
    chosen = {name: detail[name][first:last] for name in _OF_GAMES}
    named = {
        name: {game - first: value for game, value in detail[name].items() if first <= game < last} for name in _BY_GAME
    }
    source, name = unit.places[low]
    return replace(
        unit,
        source=source,
        name=name,
        offset=int(chosen["offsets"][0]) if len(file) else unit.offset,
        files=unit.files[low:high],
        detail={**chosen, **named, "file": file - low, "files": detail["files"][low:high], "stray": 0, "rejects": ()},
    )


def _joined(parts: Sequence[Unit]) -> dict[str, Any]:
    """The detail of a unit of several, each of one file or a piece of it."""
    details = [part.detail for part in parts]
    games = [len(detail["starts"]) for detail in details]
    arrays = {name: np.concatenate([detail[name] for detail in details]) for name in _OF_GAMES}
    before = np.repeat(_before([len(part.payload) for part in parts]), games)
    return {
        **arrays,
        "starts": arrays["starts"] + before,
        "ends": arrays["ends"] + before,
        "file": np.repeat(np.arange(len(parts)), games),
        "files": tuple(file for each in details for file in each["files"]),
        **{
            name: {
                first + game: value
                for first, detail in zip(_before(games).tolist(), details, strict=True)
                for game, value in detail[name].items()
            }
            for name in _BY_GAME
        },
        "stray": sum(each["stray"] for each in details),
        "rejects": tuple(
            replace(reject, file=number) for number, each in enumerate(details) for reject in each["rejects"]
        ),
    }


def _before(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    """What comes before each of some pieces."""
    return np.cumsum([0, *sizes[:-1]], dtype=np.int64)


def _of_files(files: Sequence[RawFile], block: int) -> Iterator[Unit]:
    """Units of one file or a piece of it, with their raw bytes."""
    for source, file in enumerate(files):
        waiting: Unit | None = None
        counted = 0
        for unit, position in _of_file(source, file, block):
            if waiting is not None:
                yield waiting
            waiting = replace(unit, raw_bytes=position - counted)
            counted = position
        if waiting is None:
            waiting = Unit(source=source, name=file.name, offset=0, detail=_detail(file.name, rejects=(NO_GAME,)))
        yield replace(waiting, raw_bytes=waiting.raw_bytes + file.bytes - counted)


def _of_file(source: int, file: RawFile, block: int) -> Iterator[tuple[Unit, int]]:
    """Units of a raw file, each with the number of its bytes read so far."""
    position = 0
    for member in file.members(SUFFIXES):
        for unit in _of_member(source, member.name, _path(file, member), _Text(member.stream), block):
            position = max(position, min(member.raw_position(), file.bytes))
            yield unit, position


def _of_member(source: int, name: str, path: str, text: _Text, block: int) -> Iterator[Unit]:
    empty, first_line, broken_off = True, b"", -1
    for piece in cut(text.read, LONGEST_GAME, block):
        if text.problem and len(piece.starts) and _reaches(piece, text.length):
            broken_off = piece.offset + int(piece.starts[-1])
            piece = _without_last(piece)
        first_line = first_line or piece.name
        empty = empty and not len(piece.starts)
        if text.problem and not len(piece.starts):
            continue
        detail = _detail(path, piece, first_line, utf16=text.utf16, rejects=(NO_GAME,) if empty else ())
        offset = piece.offset
        if text.utf16:
            offset = text.raw_offset(piece)
            detail["offsets"] = offset + 2 * _utf16_units(piece.payload, piece.starts)
        yield Unit(source=source, name=name, offset=offset, payload=piece.payload, detail=detail)
    if text.problem:
        offset = broken_off if broken_off >= 0 and not text.utf16 else text.bytes
        reason, why = text.problem
        unread = Reject(reason=reason, offset=offset, detail=why)
        yield Unit(source=source, name=name, offset=offset, detail=_detail(path, rejects=(unread,)))


def _reaches(piece: Piece, end: int) -> bool:
    """Whether the last game lacks its own end and extends to the end of the text."""
    unfinished = piece.endings[-1] in (Ending.OPEN, Ending.IN_VALUE)
    return bool(unfinished and piece.offset + int(piece.ends[-1]) == end)


def _without_last(piece: Piece) -> Piece:
    end = int(piece.ends[-2]) if len(piece.ends) > 1 else 0
    games = {name: getattr(piece, name)[:-1] for name in ("starts", "ends", "endings")}
    codecs = {game: codec for game, codec in piece.codecs.items() if game < len(games["starts"])}
    return replace(piece, payload=piece.payload[:end], codecs=codecs, **games)


def _detail(
    path: str,
    piece: Piece = _NOTHING,
    first_line: bytes = b"",
    *,
    utf16: bool = False,
    rejects: tuple[Reject, ...] = (),
) -> dict[str, Any]:
    return {
        "starts": piece.starts,
        "ends": piece.ends,
        "endings": piece.endings,
        "trees": piece.trees,
        "codecs": piece.codecs,
        "offsets": piece.offset + piece.starts,
        "file": np.zeros(len(piece.starts), np.int64),
        "files": ((path, first_line, utf16),),
        "stray": piece.stray,
        "rejects": rejects,
    }


def _path(file: RawFile, member: Member) -> str:
    """Path of a file in an archive, as if the archive were unpacked in place."""
    if member.name == file.name:
        return plain_name(file.name)
    inside = member.name[len(file.name) + 1 :].removeprefix("./")
    return plain_name((PurePosixPath(file.name).parent / inside).as_posix())


class _Text:
    """The bytes of a member, with UTF-16 converted to UTF-8."""

    def __init__(self, stream: BinaryIO) -> None:
        self.utf16 = False
        self.bytes = 0
        self.length = 0
        self.problem: tuple[str, str] | None = None
        self._stream = stream
        self._decoder: codecs.IncrementalDecoder | None = None
        self._mark = 0  # bytes of a byte-order mark
        self._measured = (0, 0)  # an offset in UTF-8, and the units of UTF-16 before it
        self._text = b""  # from that offset on

    def read(self, size: int) -> bytes:
        """The next bytes; empty only at the end."""
        if not self.bytes:
            text = self._first(size)
        else:
            text = self._pull(size) if self._decoder is None else self._decoded(size, b"")
        self.length += len(text)
        return text

    def _pull(self, size: int) -> bytes:
        if self.problem:
            return b""
        block, damage = read_block(self._stream, size)
        if damage:
            self.problem = damage.reason, str(damage)
        self.bytes += len(block)
        return block

    def _first(self, size: int) -> bytes:
        head = self._pull(max(size, 4))
        if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            self._mark = 2
        little = head[:2] == codecs.BOM_UTF16_LE or (head[1:2] == b"\0" and head[:1] in b"(\r\n ;")
        big = head[:2] == codecs.BOM_UTF16_BE or (head[:1] == b"\0" and head[1:2] in b"(\r\n ;")
        if not head or not (little or big):
            return head
        self.utf16 = True
        self._decoder = codecs.getincrementaldecoder("utf-16-le" if little else "utf-16-be")("replace")
        return self._decoded(size, head[self._mark :])

    def _decoded(self, size: int, raw: bytes) -> bytes:
        decoder = self._decoder
        if decoder is None:
            return b""
        while True:
            raw = raw or self._pull(size)
            text = decoder.decode(raw, final=not raw).encode("utf-8", "replace")
            if text or not raw:
                self._text += text
                return text
            raw = b""

    def raw_offset(self, piece: Piece) -> int:
        """Byte of the file at which a piece begins; call in order of pieces."""
        offset, before = self._measured
        size = piece.offset - offset
        before += int(_utf16_units(self._text, np.array([size]))[0])
        self._measured, self._text = (piece.offset, before), self._text[size:]
        return self._mark + 2 * before


def _utf16_units(text: bytes, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """UTF-16 code units in the first bytes of UTF-8: one per character, two beyond the basic plane."""
    data = np.frombuffer(text, np.uint8)
    count = np.concatenate(([0], np.cumsum(((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0))))
    units_: npt.NDArray[np.int64] = count[ends]
    return units_
