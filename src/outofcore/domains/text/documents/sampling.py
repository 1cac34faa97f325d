"""The text of a raw file by document, without a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from outofcore.domains.text.documents.cleaning import InvalidText, blocks, clean
from outofcore.domains.text.documents.members import SUFFIXES, OpenMember
from outofcore.domains.text.documents.records import read_documents
from outofcore.domains.text.params import TextSection
from outofcore.raw.damage import DamagedInput
from outofcore.raw.files import Member, RawFile
from outofcore.raw.unit import Unit


def texts(file: RawFile, section: TextSection) -> Iterator[Iterator[bytes]]:
    """Each document as cleaned blocks, to be consumed before the next document is requested.

    An invalid or truncated document ends where the problem appears.
    """
    for member in file.members(SUFFIXES):
        with suppress(DamagedInput):  # unreadable input is counted by the conversion
            yield from _of_member(member, section)


def _of_member(member: Member, section: TextSection) -> Iterator[Iterator[bytes]]:
    opened = OpenMember(member, section.source)
    for stretch in opened.stretches():
        if stretch.payload is None:
            parts = opened.reader.document(opened.division)
            if opened.kind == "text":
                yield _cleaned(parts, section)
            for _ in parts:
                pass
            continue
        detail = {"kind": opened.kind, "lengths": stretch.lengths}
        unit = Unit(source=0, name=member.name, offset=stretch.offset, payload=stretch.payload, detail=detail)
        for text in read_documents(unit, section).texts:
            yield iter((text,))


def _cleaned(parts: Iterator[bytes], section: TextSection) -> Iterator[bytes]:
    try:
        for block in blocks(parts):
            yield clean(block, section.source).text
    except (InvalidText, DamagedInput):
        return
