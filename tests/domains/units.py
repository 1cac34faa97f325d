"""Units as the cutter makes them, of text that is in no file."""

from __future__ import annotations

import io

from outofcore.raw.cutting import MemberText
from outofcore.raw.files import Member
from outofcore.raw.unit import Unit


def unit_of(payload: bytes, offset: int = 0, name: str = "a.pgn") -> Unit:
    """A unit of whole records that begin at ``offset`` in their file."""
    member = Member(name, io.BytesIO(), lambda: 0)
    return MemberText(3, name, name, 0, member.stream, "", 0, member).unit(offset, payload)
