"""What the driver of a conversion and its workers exchange."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Bytes, Ints
from outofcore.store.schema import Columns

KEY_BYTES = 16

Audit = Callable[..., str | None]
# Characters of what an audit reports.
LONGEST_DIFFERENCE = 4000


@dataclass(frozen=True)
class Stretch:
    """Consecutive whole records of one member of a raw file, in the payload of a unit."""

    source: int  # index of the raw file in the sorted list of sources
    name: str  # of the file; ``archive.tar.zst/member.sgf`` inside an archive
    member: int  # its number in the archive
    offset: int  # of its first byte in the decompressed file
    start: int  # in the payload
    stop: int
    encoding: str = ""  # that the file has, if the payload has it as UTF-8
    whole: bool = False  # whether it is all of the file
    detail: Any = None  # what else the domain's worker needs; picklable

    def offsets(self, payload: bytes, starts: Ints) -> Ints:
        """Byte offsets in the decompressed file of ascending places in the unit's payload, (n,) each."""
        if not self.encoding:
            return starts + (self.offset - self.start)
        places = pairwise([self.start, *starts.tolist()])
        return self.offset + np.cumsum([raw_size(payload[a:b], self.encoding) for a, b in places], dtype=np.int64)


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
        What was wrong, in words.
    file
        Which of the unit's files has the record: an index into :attr:`Unit.places`.
    """

    reason: str
    offset: int
    detail: str = ""
    file: int = 0


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
        The bytes; empty if the worker reads the file itself.
    detail
        Anything else that the domain's worker needs; picklable.
    raw_bytes
        Bytes of raw (compressed) input covered by this unit; they sum to the size of the input.
    others
        Indices of further raw files that the worker reads, if a record lies in several.
    stretches
        Where the records of a unit of :func:`outofcore.raw.cutting.cut` are; its files are those of the stretches.
    rejects
        What could not be read where the unit was cut; it is counted without the domain.
    """

    source: int
    name: str
    offset: int
    payload: bytes = b""
    detail: Mapping[str, Any] = field(default_factory=dict)
    raw_bytes: int = 0
    others: tuple[int, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    rejects: tuple[Reject, ...] = ()

    @cached_property
    def places(self) -> tuple[tuple[int, str], ...]:
        """Source and name of each file that has records of the unit."""
        return tuple((stretch.source, stretch.name) for stretch in self.stretches) or ((self.source, self.name),)

    @property
    def begin(self) -> tuple[int, int]:
        """Member and offset of its first record."""
        return self.stretches[0].member, self.stretches[0].offset

    def records(self, begin: bytes) -> Iterator[tuple[bytes, int, int]]:
        """Text, file and offset of each record of a unit of the cutter; one begins wherever ``begin`` matches.

        It ends before the next of its file; bytes of a file before its first record are in none.
        """
        bounds: list[tuple[int, int]] = []
        for stretch in self.stretches:
            matches = re.finditer(begin, self.payload[stretch.start : stretch.stop])
            bounds += pairwise([*(stretch.start + match.start() for match in matches), stretch.stop])
        files, offsets = self.origins(np.array([start for start, _ in bounds], np.int64))
        for (start, stop), file, offset in zip(bounds, files.tolist(), offsets.tolist(), strict=True):
            yield self.payload[start:stop], file, offset

    def origins(self, starts: Ints) -> tuple[Ints, Ints]:
        """File, an index into :attr:`places`, and byte offset there of ascending places in the payload, (n,) each."""
        ends = np.array([stretch.stop for stretch in self.stretches])
        file = np.minimum(np.searchsorted(ends, starts, "right"), len(ends) - 1)
        offsets = starts + np.array([stretch.offset - stretch.start for stretch in self.stretches])[file]
        for number, stretch in enumerate(self.stretches):
            if stretch.encoding:
                here = file == number
                offsets[here] = stretch.offsets(self.payload, starts[here])
        return file, offsets


@dataclass(frozen=True)
class AuditRate:
    """How many records the reference library reads: one in so many, or so many per raw byte; chosen by content.

    Attributes
    ----------
    usual
        One record in so many.
    unusual
        One in so many of those that the domain calls unusual (another start position, setup stones): they are few, and
        engines err there first.
    per_byte
        Records of each kind per raw byte of a unit, in place of both: those of an input that nothing has counted.
    """

    usual: int = 1
    unusual: int = 1
    per_byte: float | None = None

    def chosen(
        self, draws: npt.NDArray[np.uint64], raw_bytes: int, unusual: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.bool_]:
        """Which records of a unit of so many bytes to audit, by a number drawn from the content of each."""
        rare = np.zeros(len(draws), np.bool_) if unusual is None else unusual
        rates = self.usual, self.unusual
        if self.per_byte is not None:
            wanted = self.per_byte * max(1, raw_bytes)
            rates = max(1, int(len(draws) / wanted)), max(1, int(np.count_nonzero(rare) / wanted))
        one_in = np.where(rare, *(np.uint64(rate) for rate in reversed(rates)))
        chosen: npt.NDArray[np.bool_] = draws % one_in == 0
        return chosen


NO_AUDIT = AuditRate(2**63, 2**63)


@dataclass(frozen=True, kw_only=True)
class UnitResult:
    """Result of converting a unit.

    Attributes
    ----------
    found
        Records seen: always ``len(keys) + len(rejects)``, less one where ``continues`` (it was counted before).
    rows
        Row fields of all sequences, concatenated in input order.
    sequences
        Sequence columns, one entry each, with ``length`` (int64) among them.
    keys
        Content hash of each sequence, shape (n, 16) uint8: equal content, equal key. Splits and removal of
        duplicates depend on it.
    file
        Which of the unit's files each sequence lies in, (n,): indices into :attr:`Unit.places`; None: all in the first.
    split
        Split name of each sequence if the domain decides (held-out records), else None: by hash of the key.
    rejects
        Records that are not stored.
    part
        Part of the store that the rows belong to; "" for a single part. All units of a part come one after the other.
    continues, unfinished
        The first sequence continues one of the previous unit; the last continues in the next. Its columns and key are
        those of its first piece; its length is the sum. Where duplicates are dropped, all pieces have one key.
    unusual
        How many of the sequences are of an unusual kind; see :class:`AuditRate`.
    counts
        Further integers for the metrics about the input, summed over units.
    stored_counts
        Further integers for the metrics about the store: one per sequence (0 or more), summed over those that are
        stored, so without duplicates.
    audited
        Number of records that the oracle has read.
    differences
        Description of each record on which engine and oracle disagree, and of its place.
    """

    found: int
    rows: Columns
    sequences: Columns
    keys: Bytes
    file: Ints | None = None
    split: npt.NDArray[Any] | None = None
    rejects: tuple[Reject, ...] = ()
    part: str = ""
    continues: bool = False
    unfinished: bool = False
    unusual: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    stored_counts: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    audited: int = 0
    differences: tuple[str, ...] = ()

    @property
    def places(self) -> Ints:
        """Index into :attr:`Unit.places` for each sequence, (n,)."""
        return np.zeros(len(self.keys), np.int64) if self.file is None else self.file


def raw_size(text: bytes, encoding: str) -> int:
    """Bytes of UTF-8 in the encoding of their file, "" for UTF-8 itself; a character counts where it begins."""
    if not encoding:
        return len(text)
    data = np.frombuffer(text, np.uint8)
    characters = np.count_nonzero(data & 0xC0 != 0x80)
    return int(4 * characters if "32" in encoding else 2 * (characters + np.count_nonzero(data >= 0xF0)))


def difference(audit: Audit, *facts: Any, **more: Any) -> str:
    """What a comparison with the reference library found, or what the library raised; "" where both agree."""
    try:
        finding = audit(*facts, **more)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a record that breaks the library is as good as a difference
        finding = f"the oracle raised {type(error).__name__}: {error}"
    return (finding or "")[:LONGEST_DIFFERENCE]


def keys_of(pieces: Sequence[tuple[npt.NDArray[Any], Ints]], size: int = KEY_BYTES) -> Bytes:
    """BLAKE2b digests of n records, (n, ``size``) uint8.

    Record i is bytes ``spans[i, 0]`` to ``spans[i, 1]`` of each piece, one after the other; ``pieces`` are pairs of a
    contiguous array and ``spans`` (n, 2).
    """
    parts = []
    for content, spans in pieces:
        whole = content.tobytes()
        parts.append([whole[start:stop] for start, stop in spans.tolist()])
    digests = [blake2b(b"".join(record), digest_size=size).digest() for record in zip(*parts, strict=True)]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, size)
