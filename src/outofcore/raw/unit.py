"""What passes between the driver of a conversion and its workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.store.schema import Columns

KEY_BYTES = 16

Audit = Callable[[], str | None]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A piece of raw input, cut at record boundaries, that one worker converts.

    Attributes
    ----------
    source
        Index of the raw file in the sorted list of sources.
    name
        Name of that file relative to the raw input (``archive.tar.zst/member.sgf`` inside an archive).
    offset
        Byte offset of ``payload`` in the decompressed file.
    payload
        The bytes; empty where a worker reads the file by itself.
    detail
        Whatever else the domain's worker needs; picklable.
    raw_bytes
        Bytes of raw (compressed) input that this unit stands for; they sum to the size of the input.
    """

    source: int
    name: str
    offset: int
    payload: bytes = b""
    detail: Mapping[str, Any] = field(default_factory=dict)
    raw_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Reject:
    """A record that is not in the store, and why.

    Attributes
    ----------
    reason
        One of the domain's reasons, a short snake_case word, counted in the metrics.
    offset
        Byte offset of the record in the decompressed file.
    detail
        What was wrong, for a person.
    """

    reason: str
    offset: int
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class UnitResult:
    """What a worker made of a unit.

    Attributes
    ----------
    found
        Records seen: always ``len(keys) + len(rejects)``, less one where ``continues`` (it was counted before).
    rows
        Row fields of all sequences, concatenated in input order.
    sequences
        Sequence columns, one entry each, with ``length`` (int64) among them.
    keys
        Content hash of each sequence, shape (n, 16) uint8: equal content, equal key. The split and the removal of
        duplicates rest on it.
    split
        Names of splits by sequence where the domain decides (held-out records); else None: by hash of the key.
    rejects
        Records that are not stored.
    part
        Part of the store that the rows belong to; "" where a store has one.
    continues, unfinished
        The first sequence goes on from the unit before; the last one goes on in the next unit. Its columns and key are
        those of its first piece; its length is the sum.
    counts
        Further integers for the metrics, summed over units.
    audits
        Comparisons of a record with what the oracle makes of it, still to be run: picklable, and each gives a
        description of the difference or None.
    audited
        Records that the oracle has read already.
    differences
        A description of each record about which engine and oracle disagree.
    kept
        What stands for the rows where they stay with the worker that made them; ``rows`` is empty then.
    """

    found: int
    rows: Columns
    sequences: Columns
    keys: npt.NDArray[np.uint8]
    split: npt.NDArray[Any] | None = None
    rejects: tuple[Reject, ...] = ()
    part: str = ""
    continues: bool = False
    unfinished: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    audits: tuple[Audit, ...] = ()
    audited: int = 0
    differences: tuple[str, ...] = ()
    kept: Any = None
