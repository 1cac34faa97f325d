"""Warnings about settings that probably do not do what you meant."""

from __future__ import annotations

from collections import Counter
from typing import Any

from outofcore.conversion.assemble import Assembler
from outofcore.domains.domain import Domain


def doubts(domain: Domain, section: Any, counted: Assembler) -> list[str]:
    """One sentence for each: half of the records rejected, one accepted, or some that a filter seems to exclude."""
    name, found = domain.name, []
    rejected: Counter[str] = counted.rejected
    if counted.accepted and rejected.total() >= counted.found / 2:
        reason, count = rejected.most_common(1)[0]
        found.append(
            f"{rejected.total():,} of {counted.found:,} records are rejected, {count:,} of them as {reason}; if that "
            f"surprises you, look at the settings raw, source and filters of {name}"
        )
    if counted.accepted == 1 and (section.splits.val or section.splits.test):
        more = f"; {name}.{domain.divided_by} makes several of one" if domain.divided_by else ""
        found.append(f"only one {domain.sequence} is accepted, so only one split has data{more}")
    for key, words in section.filters.unrated_passed.items():
        if counted.counts[key]:
            found.append(f"{counted.counts[key]:,} of {counted.accepted:,} {domain.sequence}s {words}")
    return found
