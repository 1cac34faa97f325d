"""Raw files to units: whole documents, about two megabytes per unit, and where each is in the whole text.

A text that is longer than ``source.longest_document`` is divided into documents, so that a unit is bounded whatever
the input: ids at a division are those of the parts, and can differ there from those of the whole text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from outofcore.domains.splits import assign
from outofcore.domains.text.documents.reading import BLOCK_BYTES, LINES, NOTHING, Contents, OpenMember, division
from outofcore.domains.text.documents.records import keys_of, read_documents
from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.raw.cutting import MemberText, cut_by, halves, split_at
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Reject, Unit

LEAST_BYTES = 64 << 10
"""Text of fewer bytes is not split by place unless asked for: a twentieth would hold no window."""

FEW = 4096
"""As many documents are not few, however small a share is: the input is not read further to know its splits."""

DOCUMENT_BYTES = BLOCK_BYTES >> 14
"""Least bytes that a document counts for when units are joined: what is said of it takes memory as well."""


@dataclass(frozen=True)
class Places:
    """Where the text of each raw file begins in that of all, in bytes, for splits by place."""

    starts: tuple[int, ...]
    total: int


def units(files: Sequence[RawFile], section: TextSection) -> Iterator[Unit]:
    """Cut raw files into units, in order; whole documents of small files share one.

    The detail of each stretch is a :class:`~outofcore.domains.text.documents.reading.Contents`; that of the unit says
    whether it is the ``first`` of all and, where documents are split by place, its ``place`` in the bytes of all.
    """
    return placed_units(files, section, find_places(files, section))


def placed_units(files: Sequence[RawFile], section: TextSection, places: Places | None) -> Iterator[Unit]:
    """Units as :func:`units` cuts them, of files of which the first is where ``places`` begins."""
    before = places.starts[0] if places else 0
    for number, unit in enumerate(_cut(files, section)):
        placed = {"place": (before, places.total)} if places else {}
        yield replace(unit, detail={"first": number == 0, **placed})
        before += len(unit.payload)


def find_places(files: Sequence[RawFile], section: TextSection) -> Places | None:
    """Where files begin in the whole text, None if documents are not split by place.

    They are if asked for, or if the hash of their content leaves a split empty that has a share: the input is read as
    far as it takes to know.
    """
    splits = section.splits
    wanted = {number for number, share in enumerate(splits.expected) if share > 0}
    if splits.by not in ("content", "place") or (splits.by == "content" and (splits.named or len(wanted) == 1)):
        return None
    sizes, filled, documents = np.zeros(len(files) + 1, np.int64), set[int](), 0
    for unit in _cut(files, section):
        for stretch in unit.stretches:
            sizes[stretch.source + 1] += stretch.stop - stretch.start
        if splits.by == "content":
            texts = read_documents(unit, section).texts
            filled, documents = filled | set(assign(keys_of(texts), splits).tolist()), documents + len(texts)
            if wanted <= filled or documents >= FEW:
                return None
    starts = np.cumsum(sizes).tolist()
    return Places(tuple(starts), starts[-1]) if splits.by == "place" or starts[-1] >= LEAST_BYTES else None


def _cut(files: Sequence[RawFile], section: TextSection) -> Iterator[Unit]:
    cutter, weigh = partial(_of_member, section=section), partial(_weight, section=section)
    return cut_by(cutter, files, SUFFIXES, BLOCK_BYTES, weigh=weigh)


def _weight(unit: Unit, section: TextSection) -> int:
    """Bytes that a unit of one stretch counts for when it is joined with others: its own, or those of its documents."""
    contents: Contents = unit.stretches[0].detail or NOTHING
    separated = LINES if contents.kind == "lines" else division(section.source)
    if contents.lengths is not None:
        documents = len(contents.lengths)
    else:
        documents = unit.payload.count(separated.separator) if separated else 1
    return max(len(unit.payload), documents * DOCUMENT_BYTES)


def divided(unit: Unit, section: TextSection) -> tuple[Unit, ...]:
    """The documents of a unit in two units, none if it has one."""
    parts = _divided(unit, section)
    if not parts or "place" not in unit.detail:
        return parts
    left, right = parts
    before, total = unit.detail["place"]
    places = {"place": (before, total)}, {"place": (before + len(left.payload), total)}
    return replace(left, detail=places[0]), replace(right, detail=places[1])


def _divided(unit: Unit, section: TextSection) -> tuple[Unit, ...]:
    if len(unit.stretches) > 1:
        return halves(unit)
    (stretch,) = unit.stretches
    contents: Contents = stretch.detail or NOTHING
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
    return split_at(unit, at, contents._replace(divided=False), contents._replace(marks=0)) if at else ()


def _of_member(text: MemberText, section: TextSection) -> Iterator[Unit]:
    """Units of one stretch; unreadable data and the document that it interrupts are one record."""
    opened = None
    try:
        opened = OpenMember(text, section.source)
        for offset, payload, contents in opened.documents():
            if payload is not None:
                yield text.unit(offset, payload, detail=contents)
            else:
                detail = f"a line of {opened.reader.skip_line()} bytes"
                reject = Reject(reason="too_large", offset=offset, detail=detail)
                yield text.unit(offset, b"", reject, detail=contents._replace(kind="nothing"))
        if opened.kind == "json":
            detail = "JSON, but not a document per line; jq -c '.[]' makes lines of a list"
            yield text.unit(0, b"", Reject(reason="not_json_lines", offset=0, detail=detail))
    except DamagedInput as error:
        offset = opened.reader.offset if opened else 0
        reject = Reject(reason=error.reason, offset=offset, detail=f"what follows cannot be read: {error}")
        yield text.unit(offset, b"", reject)
