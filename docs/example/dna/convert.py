"""The records of a unit to rows, columns, keys and rejects."""

import hashlib

import numpy as np

from outofcore.domains.dna.schema import BASES
from outofcore.raw.unit import Reject, UnitResult

CODES = np.full(256, BASES.index("N"), np.uint8)
CODES[np.frombuffer(b"ACGTacgt", np.uint8)] = [0, 1, 2, 3] * 2


def convert(unit, section):
    rows, headers, keys, places, rejects = [np.zeros(0, np.uint8)], [], [], [], []
    for text, file, offset in unit.records(rb"(?m)^>|\A."):
        header, _, lines = text.partition(b"\n")
        bases = CODES[np.frombuffer(lines.translate(None, b" \t\r\n"), np.uint8)]
        unknown = BASES.index("N") in bases and section.source.unknown == "reject"
        wrong = "unknown_letter" if unknown else "" if len(bases) else "no_bases"
        if wrong or not header.startswith(b">"):
            rejects.append(Reject(reason=wrong or "no_header", offset=offset, file=file))
        else:
            rows.append(bases)
            headers.append(header[1:].decode("utf-8", "replace").strip())
            keys.append(hashlib.blake2b(bases, digest_size=16).digest())
            places.append(file)
    return UnitResult(
        found=len(keys) + len(rejects),
        rows={"bases": np.concatenate(rows)},
        sequences={"header": np.array(headers, object), "length": np.array([*map(len, rows[1:])], np.int64)},
        keys=np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16),
        file=np.array(places, np.int64),
        rejects=tuple(rejects),
    )
