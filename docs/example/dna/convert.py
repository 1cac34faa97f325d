"""The records of a unit to rows, columns, keys and rejects."""

import hashlib
import re

import numpy as np

from outofcore.domains.dna.schema import BASES
from outofcore.raw.unit import Reject, UnitResult

CODES = np.full(256, BASES.index("N"), np.uint8)
CODES[np.frombuffer(b"ACGTacgt", np.uint8)] = [0, 1, 2, 3] * 2


def convert(unit, section):
    rows, headers, keys, rejects, offset = [np.zeros(0, np.uint8)], [], [], [], unit.offset
    for record in re.split(rb"(?m)(?=^>)", unit.payload):
        header, _, lines = record.partition(b"\n")
        bases = CODES[np.frombuffer(lines.translate(None, b" \t\r\n"), np.uint8)]
        unknown = BASES.index("N") in bases and section.source.unknown == "reject"
        wrong = "unknown_letter" if unknown else "" if len(bases) else "no_bases"
        if record.strip() and (wrong or not header.startswith(b">")):
            rejects.append(Reject(reason=wrong or "no_header", offset=offset))
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
