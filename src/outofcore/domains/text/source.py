"""Raw files to units: whole documents, about two megabytes per unit, and the pieces of long documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from outofcore.domains.text.documents.long import PartOfDocument, pieces, survey
from outofcore.domains.text.documents.reading import BLOCK_BYTES, LINES, NOTHING, Contents, OpenMember, Scout, division
from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.domains.text.tokens.cuts import WINDOW_BYTES, Cutter, at_character
from outofcore.domains.text.tokens.engine import open_engine
from outofcore.domains.text.tokens.tokenizer import EncodingError, load_tokenizer
from outofcore.raw.cutting import MemberText, cut_by, halves, split_at
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Reject, Unit


def units(files: Sequence[RawFile], section: TextSection) -> Iterator[Unit]:
    """Cut raw files into units, in order; whole documents of small files share one.

    The detail of each stretch is a :class:`~outofcore.domains.text.documents.reading.Contents`; that of the unit says
    whether it is the ``first`` of all. ``section`` has the tokenizer's file, which decides where long documents may be
    cut.
    """
    with Scout(files, SUFFIXES) as scout:
        cutter = partial(_of_member, scout=scout, section=section)
        cut = cut_by(cutter, files, SUFFIXES, BLOCK_BYTES, joins=lambda unit: part_of_document(unit) is None)
        for number, unit in enumerate(cut):
            yield replace(unit, detail={"first": number == 0})


def part_of_document(unit: Unit) -> PartOfDocument | None:
    """What a unit has of a document that was cut into pieces; None if it has whole documents."""
    contents: Contents = unit.stretches[0].detail or NOTHING
    return contents.part


def divided(unit: Unit, section: TextSection) -> tuple[Unit, ...] | None:
    """The documents of a unit in two units, none if it has one; a piece of a document is not divided."""
    if len(unit.stretches) > 1:
        return halves(unit)
    (stretch,) = unit.stretches
    contents: Contents = stretch.detail or NOTHING
    if contents.part is not None:
        return None
    if contents.lengths is not None:
        rows = len(contents.lengths) // 2
        before, after = contents.lengths[:rows], contents.lengths[rows:]
        at = int(np.maximum(before, 0).sum())
        left, right = split_at(unit, at, contents._replace(lengths=before), contents._replace(lengths=after, marks=0))
        moved = replace(right.stretches[0], offset=stretch.offset + rows)
        return (left, replace(right, offset=moved.offset, stretches=(moved,))) if rows else ()
    separated = LINES if contents.kind == "lines" else division(section.source)
    starts = [start for start, _ in separated.split(unit.payload)] if separated else []
    at = starts[len(starts) // 2] if starts else 0
    return split_at(unit, at, contents, contents._replace(marks=0)) if at else ()


def _of_member(text: MemberText, scout: Scout, section: TextSection) -> Iterator[Unit]:
    """Units of one stretch; unreadable data and the document that it interrupts are one record."""
    opened = None
    try:
        opened = OpenMember(text, section.source)
        marks = opened.marks
        for offset, payload, lengths in opened.documents():
            if payload is not None:
                yield text.unit(offset, payload, detail=Contents(opened.kind, marks, lengths))
            elif opened.kind == "text":
                yield from _pieces(text, opened, offset, marks, scout, section)
            else:
                size = sum(map(len, opened.reader.document(opened.division)))
                reject = Reject(reason="too_large", offset=offset, detail=f"a line of {size} bytes")
                yield text.unit(offset, b"", reject, detail=Contents("nothing", marks))
            marks = 0
        if opened.kind == "json":
            detail = "JSON, but not a document per line; jq -c '.[]' makes lines of a list"
            yield text.unit(0, b"", Reject(reason="not_json_lines", offset=0, detail=detail))
    except DamagedInput as error:
        offset = opened.reader.offset if opened else 0
        reject = Reject(reason=error.reason, offset=offset, detail=f"what follows cannot be read: {error}")
        yield text.unit(offset, b"", reject)


def _pieces(
    text: MemberText, opened: OpenMember, offset: int, marks: int, scout: Scout, section: TextSection
) -> Iterator[Unit]:
    """Pieces of a document that is too long to be read whole."""
    tokenizer = load_tokenizer(section)
    engine = open_engine(tokenizer)
    cutter = Cutter(engine.ids, safe=tokenizer.cuttable)
    ahead = scout.at(text.source, text.member, opened.reader.position).document(opened.division)
    try:
        found = survey(ahead, section.filters, cutter, engine, offset)
    except EncodingError as error:
        found = Reject(reason="not_tokenized", offset=offset, detail=str(error))
    raw = opened.reader.document(opened.division)
    if isinstance(found, Reject):
        for _ in raw:
            pass
        yield text.unit(offset, b"", found, detail=Contents("nothing", marks))
        return
    before = b""
    for number, piece in enumerate(pieces(raw, found.cuts)):
        part = PartOfDocument(found, before, continues=number > 0, unfinished=number < len(found.cuts))
        yield text.unit(offset, piece, detail=Contents("text", 0 if number else marks, part=part))
        before = piece[at_character(piece, max(0, len(piece) - WINDOW_BYTES)) :]
