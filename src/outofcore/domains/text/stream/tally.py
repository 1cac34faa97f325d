"""Count the documents read by a stream, each once however often it is read."""

from __future__ import annotations

from collections import Counter
from typing import Any

from outofcore.raw.unit import UnitResult


class Tally:
    """Counts the documents of units as they pass."""

    def __init__(self) -> None:
        self.found = 0
        self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self._seen: set[tuple[int, int]] = set()

    def add(self, file: int, unit: int, result: UnitResult) -> None:
        """Count a unit unless already counted."""
        if (file, unit) in self._seen:
            return
        self._seen.add((file, unit))
        self.found += result.found
        self.accepted += result.found - len(result.rejects)
        self.rejected.update(reject.reason for reject in result.rejects)

    def figures(self) -> dict[str, Any]:
        """Found, accepted, and rejected by reason."""
        return {"found": self.found, "accepted": self.accepted, "rejected": dict(sorted(self.rejected.items()))}
