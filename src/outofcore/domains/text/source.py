"""Raw files to units: whole documents, about two megabytes per unit, and the pieces of long documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outofcore.domains.text.documents.long import pieces, survey
from outofcore.domains.text.documents.reading import BLOCK_BYTES, LINES, OpenMember, Scout, division
from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.domains.text.tokens.cuts import WINDOW_BYTES, Cutter, at_character
from outofcore.domains.text.tokens.engine import open_engine
from outofcore.domains.text.tokens.tokenizer import EncodingError, load_tokenizer
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import Member, RawFile
from outofcore.raw.gather import gathered, halves, side_by_side
from outofcore.raw.unit import Reject, Unit, raw_size


def units(files: Sequence[RawFile], section: TextSection) -> Iterator[Unit]:
    """Cut raw files into units, in order; whole documents of small files share one.

    A unit's ``detail`` has its ``kind`` (``text``, ``lines``, ``values``: whole documents; ``piece``; ``reject``), the
    ``member`` of the raw file, and whether it is the ``first`` of all; that of a shared one has its parts. ``section``
    has the tokenizer's file, which decides where long documents may be cut.
    """
    return gathered(_of_files(files, section), BLOCK_BYTES, _joined, lambda unit: unit.detail["kind"] != "piece")


def divided(unit: Unit, section: TextSection) -> tuple[Unit, ...] | None:
    """The documents of a unit in two units, none if it has one; a piece of a document is not divided."""
    kind, payload = unit.detail["kind"], unit.payload
    if kind == "joined":
        return halves(unit, _joined)
    if kind == "piece":
        return None
    left, right = dict(unit.detail), {**unit.detail, "first": False, "marks": 0}
    if kind == "values":
        lengths = unit.detail["lengths"]
        raw = len(lengths) // 2
        at = int(np.maximum(lengths[:raw], 0).sum())
        left["lengths"], right["lengths"] = lengths[:raw], lengths[raw:]
    else:
        separated = LINES if kind == "lines" else division(section.source)
        starts = [start for start, _ in separated.split(payload)] if separated else [0]
        at = starts[len(starts) // 2] if starts else 0
        raw = raw_size(payload[:at], unit.detail.get("encoding", ""))
    if not raw:
        return ()
    return (
        replace(unit, payload=payload[:at], detail=left),
        replace(unit, payload=payload[at:], offset=unit.offset + raw, detail=right),
    )


def _joined(parts: Sequence[Unit]) -> dict[str, Any]:
    """The detail of a unit of several."""
    return {
        **side_by_side(parts),
        "kind": "joined",
        "first": parts[0].detail["first"],
        "marks": sum(part.detail["marks"] for part in parts),
    }


def _of_files(files: Sequence[RawFile], section: TextSection) -> Iterator[Unit]:
    """Units of one file or a piece of it, with their raw bytes."""
    first = True
    for number, file in enumerate(files):
        # A unit is held back until it is known how much of the file was read for it.
        held: Unit | None = None
        done = 0
        with Scout(file, SUFFIXES) as scout:
            for index, member in enumerate(file.members(SUFFIXES)):
                for unit in _Place(number, index, member, scout, section).units():
                    if held is not None:
                        yield held
                    read = min(member.raw_position(), file.bytes)
                    held = replace(unit, raw_bytes=read - done, detail={**unit.detail, "first": first})
                    done = read
                    first = False
        if held is not None:
            yield replace(held, raw_bytes=held.raw_bytes + file.bytes - done)


@dataclass(frozen=True)
class _Place:
    """A member of a raw file, with what its units need to know of it."""

    source: int
    index: int
    member: Member
    scout: Scout
    section: TextSection

    def units(self) -> Iterator[Unit]:
        """Its units; unreadable data and the document that it interrupts are one record."""
        opened = None
        try:
            opened = OpenMember(self.member, self.section.source)
            yield from self._whole(opened)
            if opened.kind == "json":
                detail = "JSON, but not a document per line; jq -c '.[]' makes lines of a list"
                yield self._unit("reject", 0, b"", reject=Reject(reason="not_json_lines", offset=0, detail=detail))
        except DamagedInput as error:
            offset = opened.reader.offset if opened else 0
            detail = f"what follows cannot be read: {error}"
            reject = Reject(reason=error.reason, offset=offset, detail=detail)
            yield self._unit("reject", offset, b"", reject=reject)

    def _whole(self, opened: OpenMember) -> Iterator[Unit]:
        marks = opened.marks
        for stretch in opened.stretches():
            if stretch.payload is not None:
                detail = {"lengths": stretch.lengths, "encoding": opened.reader.encoding}
                made = iter((self._unit(opened.kind, stretch.offset, stretch.payload, **detail),))
            elif opened.kind == "text":
                made = self._pieces(opened, stretch.offset)
            else:
                made = self._skipped_line(opened, stretch.offset)
            for unit in made:
                yield replace(unit, detail={**unit.detail, "marks": marks})
                marks = 0

    def _unit(self, kind: str, offset: int, payload: bytes, **detail: Any) -> Unit:
        detail |= {"kind": kind, "member": self.index, "marks": 0}
        return Unit(source=self.source, name=self.member.name, offset=offset, payload=payload, detail=detail)

    def _skipped_line(self, opened: OpenMember, offset: int) -> Iterator[Unit]:
        size = sum(map(len, opened.reader.document(opened.division)))
        reject = Reject(reason="too_large", offset=offset, detail=f"a line of {size} bytes")
        yield self._unit("reject", offset, b"", reject=reject)

    def _pieces(self, opened: OpenMember, offset: int) -> Iterator[Unit]:
        """Pieces of a document that is too long to be read whole."""
        section = self.section
        tokenizer = load_tokenizer(section)
        engine = open_engine(tokenizer)
        cutter = Cutter(engine.ids, safe=tokenizer.cuttable)
        ahead = self.scout.at(self.index, opened.reader.position).document(opened.division)
        try:
            found = survey(ahead, section.filters, cutter, engine, offset)
        except EncodingError as error:
            found = Reject(reason="not_tokenized", offset=offset, detail=str(error))
        raw = opened.reader.document(opened.division)
        if isinstance(found, Reject):
            for _ in raw:
                pass
            yield self._unit("reject", offset, b"", reject=found)
            return
        before = b""
        for number, piece in enumerate(pieces(raw, found.cuts)):
            continues, unfinished = number > 0, number < len(found.cuts)
            yield self._unit(
                "piece", offset, piece, survey=found, before=before, continues=continues, unfinished=unfinished
            )
            before = piece[at_character(piece, max(0, len(piece) - WINDOW_BYTES)) :]
