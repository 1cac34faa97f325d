"""The records of a unit to rows, columns, keys and rejects."""

import hashlib

import numpy as np

from outofcore.domains.dna.schema import BASES
from outofcore.raw.unit import Reject, UnitResult

CODES = np.array([BASES.find(chr(byte).upper()) % 5 for byte in range(256)], np.uint8)  # N for any other byte


def convert(unit, section):
    kept, rejects = [], []
    for text, file, offset in unit.records(rb"(?ms)^>|\A."):
        if text.isspace():
            continue
        header, _, lines = text.partition(b"\n")
        bases = CODES[np.frombuffer(lines.translate(None, b" \t\r\n"), np.uint8)]
        unknown = BASES.index("N") in bases and section.source.unknown == "reject"
        wrong = "unknown_letter" if unknown else "" if len(bases) else "no_bases"
        if wrong or not header.startswith(b">"):
            rejects.append(Reject(reason=wrong or "no_header", offset=offset, file=file))
        else:
            kept.append((bases, header[1:].decode("utf-8", "replace").strip(), file))
    rows, headers, places = zip(*kept, strict=True) if kept else ((), (), ())
    keys = b"".join(hashlib.blake2b(bases, digest_size=16).digest() for bases in rows)
    return UnitResult(
        found=len(kept) + len(rejects),
        rows={"bases": np.concatenate([np.zeros(0, np.uint8), *rows])},
        sequences={"header": np.array(headers, object), "length": np.array([*map(len, rows)], np.int64)},
        keys=np.frombuffer(keys, np.uint8).reshape(-1, 16),
        file=np.array(places, np.int64),
        rejects=tuple(rejects),
    )
