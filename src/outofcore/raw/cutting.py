"""Cut raw files into units of whole records, with the file, the member and the offset of each.

A unit holds records of one file or of several small ones. What cannot be read, and a record that is too long, is one
reject of the unit, with its file and offset. The same records come out wherever the cuts fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from outofcore.raw.files import Member, RawFile
from outofcore.raw.streams import read_block, transcoded
from outofcore.raw.unit import Reject, Stretch, Unit, raw_size

UNIT_BYTES = 1 << 20
LONGEST_BYTES = 64 << 20
MOST_FILES = 4096  # of a unit: their names take memory as well
TOO_LONG = "too_long"

LastStart = Callable[[bytes], int]
"""Where the last record of a text begins, 0 if none surely does after its first byte."""


class MemberText(NamedTuple):
    """The text of a member of a raw file, to be read once."""

    source: int  # index of the raw file
    file: str  # its name
    name: str  # of the member, as in Stretch
    member: int
    stream: BinaryIO  # as UTF-8, without a byte-order mark of UTF-16 and UTF-32
    encoding: str  # of the file, "" if the stream is not transcoded
    offset: int  # bytes of that mark
    opened: Member  # for a format that is not read from the start to the end

    def unit(self, offset: int, payload: bytes, *rejects: Reject, whole: bool = False, detail: Any = None) -> Unit:
        """A unit of records of this member; that of rejects may be empty."""
        stretch = Stretch(self.source, self.name, self.member, offset, 0, len(payload), self.encoding, whole, detail)
        return Unit(
            source=self.source, name=self.name, offset=offset, payload=payload, stretches=(stretch,), rejects=rejects
        )


Cutter = Callable[[MemberText], Iterator[Unit]]
"""Cuts the text of one member into units, each of :meth:`MemberText.unit`."""

_Part = tuple[Unit, int]
"""A unit of one stretch, and the raw bytes that it covers."""


def cut(
    files: Sequence[RawFile],
    suffixes: tuple[str, ...],
    last_start: LastStart,
    *,
    size: int = UNIT_BYTES,
    longest: int = LONGEST_BYTES,
) -> Iterator[Unit]:
    """Units of whole records, of about ``size`` bytes.

    Parameters
    ----------
    files, suffixes
        The raw files, and the names that count in a folder or an archive.
    last_start
        Finds where records begin.
    longest
        Bytes of the longest record, more than ``size``; a longer one is rejected.

    Yields
    ------
    Unit
        With ``stretches`` and ``rejects``; each member, and a file without any, has at least one stretch, which may be
        empty.
    """
    return cut_by(partial(units_of_member, last_start=last_start, size=size, longest=longest), files, suffixes, size)


def cut_by(
    cutter: Cutter,
    files: Sequence[RawFile],
    suffixes: tuple[str, ...],
    size: int = UNIT_BYTES,
    *,
    weigh: Callable[[Unit], int] = lambda unit: len(unit.payload),
) -> Iterator[Unit]:
    """Units as :func:`cut` gives them, of a format whose records need a cutter of its own.

    Consecutive units of the cutter are joined while together they weigh at most ``size``: to hand over and store a unit
    takes ten times as long as to convert a short record. Units weigh their bytes, or what ``weigh`` says, where records
    are so short that their number counts.
    """
    return (_joined(group) for group in _grouped(_of_files(files, suffixes, cutter), size, weigh))


def halves(unit: Unit, last_start: LastStart = lambda _: 0) -> tuple[Unit, ...]:
    """The records of a unit of the cutter in two units without rejects, none if it has one; positions are kept."""
    if len(unit.stretches) > 1:
        middle = len(unit.stretches) // 2
        return _part(unit, unit.stretches[:middle]), _part(unit, unit.stretches[middle:])
    at = last_start(unit.payload[: len(unit.payload) // 2]) or last_start(unit.payload)
    return split_at(unit, at) if at else ()


def split_at(unit: Unit, at: int, *details: Any) -> tuple[Unit, Unit]:
    """The records of a unit of one stretch before and after a place in its payload, each with its detail."""
    (stretch,) = unit.stretches
    first, second = details or (None, None)
    raw = raw_size(unit.payload[:at], stretch.encoding)
    left = replace(stretch, stop=stretch.start + at, whole=False, detail=first)
    right = replace(stretch, start=stretch.start + at, offset=stretch.offset + raw, whole=False, detail=second)
    return _part(unit, (left,)), _part(unit, (right,))


def _of_files(files: Sequence[RawFile], suffixes: tuple[str, ...], cutter: Cutter) -> Iterator[_Part]:
    """Units of one stretch each; one is held back until it is known how much of the file was read for it."""
    for source, file in enumerate(files):
        last: Unit | None = None
        covered = read = 0  # bytes of the file on disk: read for the unit that is held back, and in all
        for index, member in enumerate(file.members(suffixes)):
            stream, encoding, offset = transcoded(member.stream)
            for unit in cutter(MemberText(source, file.name, member.name, index, stream, encoding, offset, member)):
                if last is not None:
                    yield last, covered
                position = max(read, min(member.raw_position(), file.bytes))
                last, covered, read = unit, position - read, position
        if last is None:  # an archive without a member that counts
            nothing = Stretch(source, file.name, 0, 0, 0, 0, whole=True)
            last = Unit(source=source, name=file.name, offset=0, stretches=(nothing,))
        yield last, covered + file.bytes - read


def _grouped(parts: Iterable[_Part], size: int, weigh: Callable[[Unit], int]) -> Iterator[Sequence[_Part]]:
    waiting: list[_Part] = []
    waiting_weight = 0
    for part in parts:
        weight = weigh(part[0])
        if waiting and (waiting_weight + weight > size or len(waiting) == MOST_FILES):
            yield waiting
            waiting, waiting_weight = [], 0
        waiting.append(part)
        waiting_weight += weight
    if waiting:
        yield waiting


def units_of_member(member: MemberText, last_start: LastStart, *, size: int, longest: int) -> Iterator[Unit]:
    """Units of one member, as :func:`cut` gives them, before they are joined."""
    text, offset, begun, ended = b"", member.offset, False, False
    while not ended:
        block, damage = read_block(member.stream, size)
        text, ended = text + block, len(block) < size
        if len(text) > longest and not last_start(text[: longest + 1]):
            detail = f"no second record begins within {longest:,} bytes"
            yield member.unit(offset, b"", Reject(reason=TOO_LONG, offset=offset, detail=detail))
            while not (at := _first_start(text, last_start)) and not ended:
                dropped = max(0, len(text) - size)
                offset += raw_size(text[:dropped], member.encoding)
                block, damage = read_block(member.stream, size)
                text, ended = text[dropped:] + block, len(block) < size
            at = at or len(text)
            offset, text, begun = offset + raw_size(text[:at], member.encoding), text[at:], True
        end = len(text) if ended and (damage is None or damage.whole) else last_start(text)
        if end or (ended and not begun):
            yield member.unit(offset, text[:end], whole=ended and not begun and damage is None)
            offset, text, begun = offset + raw_size(text[:end], member.encoding), text[end:], True
        if damage is not None:
            detail = f"what follows cannot be read: {damage}"
            yield member.unit(offset, b"", Reject(reason=damage.reason, offset=offset, detail=detail))


def _first_start(text: bytes, last_start: LastStart) -> int:
    """Where the first record after the first byte begins, 0 if none does."""
    at = last_start(text)
    while at and (before := last_start(text[:at])):
        at = before
    return at


def _part(unit: Unit, stretches: Sequence[Stretch]) -> Unit:
    """Some consecutive stretches of a unit."""
    first, start, stop = stretches[0], stretches[0].start, stretches[-1].stop
    moved = tuple(replace(stretch, start=stretch.start - start, stop=stretch.stop - start) for stretch in stretches)
    payload, detail = unit.payload[start:stop], unit.detail
    return Unit(
        source=first.source, name=first.name, offset=first.offset, payload=payload, detail=detail, stretches=moved
    )


def _joined(parts: Sequence[_Part]) -> Unit:
    stretches: list[Stretch] = []
    rejects: list[Reject] = []
    start = 0
    for unit, _ in parts:
        rejects += [replace(reject, file=reject.file + len(stretches)) for reject in unit.rejects]
        stretches += [
            replace(stretch, start=stretch.start + start, stop=stretch.stop + start) if start else stretch
            for stretch in unit.stretches
        ]
        start += len(unit.payload)
    return replace(
        parts[0][0],
        payload=b"".join(unit.payload for unit, _ in parts),
        stretches=tuple(stretches),
        rejects=tuple(rejects),
        raw_bytes=sum(covered for _, covered in parts),
    )
