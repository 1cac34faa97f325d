"""Raw files to units: whole documents, about two megabytes per unit, and where each is in the whole text.

A text that is longer than ``source.longest_document`` is divided into documents, so that a unit is bounded whatever
the input: ids at a division are those of the parts, and can differ there from those of the whole text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from outofcore.domains.splits import assign
from outofcore.domains.text.by_place import Edge, SampledLines
from outofcore.domains.text.documents.reading import BLOCK_BYTES, NOTHING, Contents, OpenMember, division
from outofcore.domains.text.documents.records import keys_of, read_documents
from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.cutting import MemberText, cut_by, halves, split_at
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import RawFile
from outofcore.raw.unit import KEY_BYTES, Reject, Unit

LEAST_BYTES = 64 << 10
"""Text of fewer bytes is not split by place unless asked for: a twentieth would hold no window."""

FEW = 4096
"""As many documents are not few, however small a share is: the input is not read further to know its splits."""

MOST_REPEATED = 0.1
"""Share of the lines held out that may be in train without a note: licences and headings do."""

DOCUMENT_BYTES = BLOCK_BYTES >> 14
"""Least bytes that a document counts for when units are joined: what is said of it takes memory as well."""


def units(files: Sequence[RawFile], section: TextSection) -> Iterator[Unit]:
    """Cut raw files into units, in order; whole documents of small files share one.

    The detail of each stretch is a :class:`~outofcore.domains.text.documents.reading.Contents`; that of the unit says
    whether it is the ``first`` of all, and holds the ``edges`` of splits by place.
    """
    for number, unit in enumerate(placed_units(files, section, find_edges(files, section))):
        yield replace(unit, detail={**unit.detail, "first": number == 0})


def placed_units(files: Sequence[RawFile], section: TextSection, edges: tuple[Edge, ...] | None) -> Iterator[Unit]:
    """Units as :func:`units` cuts them, of which none is the first: of text that is read again."""
    placed = {} if edges is None else {"edges": edges}
    return (replace(unit, detail=placed) for unit in cut(files, section))


def find_edges(files: Sequence[RawFile], section: TextSection) -> tuple[Edge, ...] | None:
    """Where val and test begin in the text of all files, None if documents are not split by place.

    They are if asked for, or if the hash of their content leaves a split empty that has a share: the input is read as
    far as it takes to know. Copies count nothing, as they are dropped; where they are kept, equal documents would be in
    several splits, and the hash decides. Takes some 60 bytes a document.
    """
    splits = section.splits
    wanted = {number for number, share in enumerate(splits.expected) if share > 0}
    if splits.by not in ("content", "place") or (splits.by == "content" and (splits.named or len(wanted) == 1)):
        return None
    filled, lines, tables, keys, count = set[int](), SampledLines(), list[Ints](), list[Bytes](), 0
    for unit in cut(files, section):
        documents = read_documents(unit, section)
        keys.append(keys_of(documents.texts))
        if splits.by == "content":
            filled |= set(assign(keys[-1], splits).tolist())
            if wanted <= filled or count + len(documents.texts) >= FEW:
                return None
        for number, text in enumerate(documents.texts, count):
            lines.add(number, text)
        stretches = np.array([(stretch.source, stretch.member) for stretch in unit.stretches], np.int64)
        sizes = np.array(list(map(len, documents.texts)), np.int64)
        files_of = stretches[np.array(documents.files, np.int64)]
        tables.append(np.column_stack([files_of, documents.offsets, documents.starts, sizes]).astype(np.int64))
        count += len(documents.texts)
    table, digests = np.concatenate(tables), np.concatenate(keys)
    firsts = np.unique(digests.view(f"S{KEY_BYTES}").ravel(), return_index=True)[1]
    if len(firsts) < count and (section.filters.duplicates == "keep" or section.mode == "stream"):
        return None  # equal documents would be in several splits
    new = np.isin(np.arange(count), firsts)
    ends = np.cumsum(np.where(new, table[:, 4], 0))
    total = int(ends[-1]) if count else 0
    if splits.by == "content" and total < LEAST_BYTES:
        return None
    _, val, test = splits.expected
    begins = np.array([round(total * (1 - val - test)), round(total * (1 - test))])
    numbers = np.searchsorted(ends, begins, "right")  # of the documents that they are in, copies in none
    begins, numbers = begins[numbers < count], numbers[numbers < count]
    starts = begins - ends[numbers] + table[numbers, 4]
    if len(numbers):
        _note_repeated(*lines.held_out((int(numbers[0]), int(starts[0])), new))
    return tuple(
        Edge((source, member, offset, first), start, size, bytes(key))
        for (source, member, offset, first, size), start, key in zip(
            table[numbers].tolist(), starts.tolist(), digests[numbers], strict=True
        )
    )


@lru_cache(maxsize=1)  # a forecast and its conversion look at the same text
def _note_repeated(held_out: int, repeated: int) -> None:
    if repeated > held_out * MOST_REPEATED:
        sys.stderr.write(
            f"note: text.splits: of {held_out:,} lines held out that were compared, {repeated:,} are also in train; "
            "leave copies out with text.match, or hold out files by name in splits.val\n"
        )


def cut(files: Sequence[RawFile], section: TextSection) -> Iterator[Unit]:
    """Units of whole documents; what cannot be read is one reject of a unit."""
    cutter, weigh = partial(_of_member, section=section), partial(_weight, section=section)
    return cut_by(cutter, files, SUFFIXES, BLOCK_BYTES, weigh=weigh)


def _weight(unit: Unit, section: TextSection) -> int:
    """Bytes that a unit of one stretch counts for when it is joined with others: its own, or those of its documents."""
    contents: Contents = unit.stretches[0].detail or NOTHING
    separated = division(section.source, contents.kind)
    if contents.lengths is not None:
        documents = len(contents.lengths)
    else:
        documents = unit.payload.count(separated.separator) if separated else 1
    return max(len(unit.payload), documents * DOCUMENT_BYTES)


def divided(unit: Unit, section: TextSection) -> tuple[Unit, ...]:
    """The documents of a unit in two units, none if it has one."""
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
    separated = division(section.source, contents.kind)
    starts = [start for start, _ in separated.split(unit.payload)] if separated else []
    at = starts[len(starts) // 2] if starts else 0
    return split_at(unit, at, contents, contents._replace(marks=0, continues=False)) if at else ()


def _of_member(text: MemberText, section: TextSection) -> Iterator[Unit]:
    """Units of one stretch; unreadable data and the document that it interrupts are one record."""
    opened = None
    try:
        opened = OpenMember(text, section)
        for offset, payload, contents in opened.documents():
            if isinstance(payload, Reject):
                yield text.unit(offset, b"", payload, detail=contents._replace(kind="nothing"))
            else:
                yield text.unit(offset, payload, detail=contents)
    except DamagedInput as error:
        offset = opened.reader.offset if opened else 0
        reject = Reject(reason=error.reason, offset=offset, detail=f"what follows cannot be read: {error}")
        yield text.unit(offset, b"", reject)
