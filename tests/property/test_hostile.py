"""Files that went wrong in some way: refused or counted, never a crash, a standstill or a wrong count."""

from __future__ import annotations

import pytest

from tests.property.fuzz_runs import feed
from tests.property.hostile import KINDS

FILES = 40
# Other files each time would be found wrong in somebody else's change.
FIRST = 1_000_000


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_are_refused_or_counted(kind: str) -> None:
    found = feed(kind, FIRST, FILES)
    assert found["wrong"] == []
    assert found["fed"] == FILES
    assert found["outcomes"].get("accepted", 0) > 0
