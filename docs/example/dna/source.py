"""FASTA: units that end where a record ends, and records to rows."""

import hashlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from outofcore.domains.dna.schema import BASES
from outofcore.raw.blocks import read_block
from outofcore.raw.files import Member, RawFile
from outofcore.raw.unit import Reject, Unit, UnitResult

SUFFIXES = (".fasta", ".fa", ".fna")
UNIT_BYTES = 1 << 20
CODES = np.full(256, BASES.index("N"), np.uint8)
CODES[np.frombuffer(b"ACGTacgt", np.uint8)] = [0, 1, 2, 3] * 2


def units(files: Sequence[RawFile]) -> Iterator[Unit]:
    for source, file in enumerate(files):
        told = 0
        for member in file.members(SUFFIXES):
            for offset, text, damage in pieces(member):
                told, read = member.raw_position(), member.raw_position() - told
                yield Unit(source=source, name=member.name, offset=offset, payload=text, detail=damage, raw_bytes=read)


def pieces(member: Member) -> Iterator[tuple[int, bytes, dict[str, str]]]:
    offset, text = 0, b""
    while True:
        block, damage = read_block(member.stream, UNIT_BYTES)
        text += block
        at_end = not block and damage is None
        cut = len(text) if at_end else text.rfind(b"\n>") + 1
        yield offset, text[:cut], {"damage": str(damage)} if damage else {}  # one record: what damage interrupts
        offset, text = offset + cut, text[cut:]
        if at_end or damage:
            return


def convert(unit: Unit, *, keep_unknown: bool) -> UnitResult:
    rows, headers, keys, rejects, offset = [np.zeros(0, np.uint8)], [], [], [], unit.offset
    for record in re.split(rb"(?m)(?=^>)", unit.payload):
        header, _, lines = record.partition(b"\n")
        bases = CODES[np.frombuffer(lines.translate(None, b" \t\r\n"), np.uint8)]
        if record.strip() and not header.startswith(b">"):
            rejects.append(Reject(reason="no_header", offset=offset))
        elif record.strip() and not len(bases):
            rejects.append(Reject(reason="no_bases", offset=offset))
        elif not keep_unknown and BASES.index("N") in bases:
            rejects.append(Reject(reason="unknown_letter", offset=offset))
        elif record.strip():
            rows.append(bases)
            headers.append(header[1:].decode("utf-8", "replace").strip())
            keys.append(hashlib.blake2b(bases, digest_size=16).digest())
        offset += len(record)
    if unit.detail:
        rejects.append(Reject(reason="damaged_file", offset=offset, detail=unit.detail["damage"]))
    return UnitResult(
        found=len(keys) + len(rejects),
        rows={"bases": np.concatenate(rows)},
        sequences={"header": np.array(headers, object), "length": np.array([*map(len, rows[1:])], np.int64)},
        keys=np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16),
        rejects=tuple(rejects),
    )
