"""Keys of many records: their bytes are put together in one compiled call, and hashed one by one."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Bytes
from outofcore.raw.unit import KEY_BYTES
from outofcore.system.compilation import kernel

Spans = npt.NDArray[np.int64]


def keys_of(pieces: Sequence[tuple[npt.NDArray[Any], Spans]], size: int = KEY_BYTES) -> Bytes:
    """BLAKE2b digests of n records, (n, ``size``) uint8.

    Record i is bytes ``spans[i, 0]`` to ``spans[i, 1]`` of each piece, one after the other; ``pieces`` are pairs of a
    contiguous array and ``spans`` (n, 2).
    """
    lengths = sum(spans[:, 1] - spans[:, 0] for _, spans in pieces)
    bounds = np.zeros(len(pieces[0][1]) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    records, ends = np.empty(bounds[-1], np.uint8), bounds[:-1].copy()
    for content, spans in pieces:
        _append(content.reshape(-1).view(np.uint8), spans, records, ends)
    digests = [blake2b(records.data[a:b], digest_size=size).digest() for a, b in pairwise(bounds.tolist())]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, size)


@kernel
def _append(content: Any, spans: Any, records: Any, ends: Any) -> None:
    for n in range(len(spans)):
        for place in range(spans[n, 0], spans[n, 1]):
            records[ends[n]] = content[place]
            ends[n] += 1
