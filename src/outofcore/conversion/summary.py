"""What a conversion records of its result: the attributes of the root, one row per raw file, counts, and warnings.

The estimate asks for the same, so that its forecast holds what the store will hold.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from outofcore.conversion.assemble import Assembler
from outofcore.conversion.journal import NOT_STORED
from outofcore.domains.domain import Domain
from outofcore.domains.splits import SPLITS
from outofcore.raw.files import RawFile
from outofcore.store.schema import Columns, Schema
from outofcore.store.writer import StoreWriter

# As Domain.rejecting, of what is rejected for other records.
_REJECTING = {"filters.duplicates": ("duplicate",), "splits.by": ("undated", "mixed_players")}


def counted(assembler: Assembler, writer: StoreWriter) -> dict[str, Any]:
    """Records found, accepted and rejected; rows and sequences of each split."""
    return {
        "found": assembler.found,
        "accepted": assembler.accepted,
        "rejected": dict(sorted(assembler.rejected.items())),
        **writer.counts(),
    }


def attributes(
    domain: Domain, section: Any, schemas: Mapping[str, Schema], counts: Mapping[str, Any]
) -> dict[str, Any]:
    """The attributes of the root; ``counts`` comes from :func:`counted`."""
    return {
        **counts,
        "domain": domain.name,
        "row": domain.row,
        "sequence": domain.sequence,
        "parts": sorted(schemas),
        "splits": list(SPLITS),
        "params": section.model_dump(mode="json", exclude=NOT_STORED),
    }


def sources(files: Sequence[RawFile], counts: Mapping[int, Sequence[int]], digests: Iterable[str]) -> Columns:
    """The columns of ``sources/``: records found and accepted by number of the file, and the files' ``digests``."""
    pairs = [counts.get(number, (0, 0)) for number in range(len(files))]
    return {
        "name": np.array([file.name for file in files], object),
        "digest": np.array(list(digests), object),
        "bytes": np.array([file.bytes for file in files], np.int64),
        "found": np.array([found for found, _ in pairs], np.int64),
        "accepted": np.array([accepted for _, accepted in pairs], np.int64),
        "rejected": np.array([found - accepted for found, accepted in pairs], np.int64),
    }


def frequent(domain: Domain, counted: Assembler, rejected: Mapping[str, int]) -> str:
    """The three most frequent reasons, each with an example, and the setting that decides about it, if there is one."""
    decide = {**domain.rejecting, **_REJECTING}
    settings = {reason: setting for setting, reasons in decide.items() for reason in reasons}
    return "; ".join(
        f"{reason} {count:,}{f' ({settings[reason]})' if reason in settings else ''}, as {counted.examples[reason]}"
        for reason, count in Counter(rejected).most_common(3)
    )


def doubts(domain: Domain, section: Any, counted: Assembler) -> list[str]:
    """Warnings about settings that probably do not do what you meant, one sentence for each.

    All or half of the records are rejected, more than one in a hundred are damaged, one is accepted, or some are
    accepted that a filter seems to exclude.
    """
    name, sentences = domain.name, []
    rejected: Counter[str] = counted.rejected
    if counted.found and not counted.accepted:
        sentences.append(f"none of {counted.found:,} records is accepted: {frequent(domain, counted, rejected)}")
    if counted.accepted and rejected.total() >= counted.found / 2:
        reason, count = rejected.most_common(1)[0]
        sentences.append(
            f"{rejected.total():,} of {counted.found:,} records are rejected, {count:,} of them as {reason}; if that "
            f"surprises you, look at the settings raw, source and filters of {name}"
        )
    lost = Counter({reason: count for reason, count in rejected.items() if reason in domain.losses})
    if counted.accepted and lost.total() > counted.found / 100:
        reasons = frequent(domain, counted, lost)
        sentences.append(f"{lost.total():,} of {counted.found:,} {domain.sequence}s cannot be read: {reasons}")
    if counted.accepted == 1 and (section.splits.val or section.splits.test):
        more = f"; {name}.{domain.divided_by} makes several of one" if domain.divided_by else ""
        sentences.append(f"only one {domain.sequence} is accepted, so only one split has data{more}")
    separator = domain.divided_by and attrgetter(domain.divided_by)(section)
    if separator and 0 < counted.found - counted.counts["divisions"] <= len(counted.by_source):
        sentences.append(
            f"{name}.{domain.divided_by} {separator!r} divides no file: each is one {domain.sequence}; in YAML, \\n is "
            "a line break in double quotes only"
        )
    for key, words in section.filters.unrated_passed.items():
        if counted.counts[key]:
            sentences.append(f"{counted.counts[key]:,} of {counted.accepted:,} {domain.sequence}s {words}")
    return sentences


def note_doubts(domain: Domain, figures: dict[str, Any]) -> dict[str, Any]:
    """Say what in the figures looks like a mistake in the settings of a conversion; returns the figures."""
    for doubt in figures.get("doubts", ()):
        sys.stderr.write(f"note: {domain.name}: {doubt}\n")
    return figures
