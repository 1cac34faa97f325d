from __future__ import annotations

from pathlib import Path

import pytest

from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError
from outofcore.project.entries import refuse_unlisted


def test_what_entries_have_left_is_refused_where_raw_is_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    domain = get_domain("chess")
    section = domain.section.model_validate({"raw": "games"})
    refuse_unlisted(domain, section)
    left = ("data/stores/chess/a.zarr", "metrics/chess/convert/a.json", "data/rejects/chess/a.csv")
    for path in map(Path, left):
        path.parent.mkdir(parents=True)
        path.touch()
    with pytest.raises(ParamsError, match=f"chess.raw in params.yaml has no entry 'a'; .*: 'rm -r {' '.join(left)}'"):
        refuse_unlisted(domain, section)
    for path in left:
        Path(path).unlink()
    refuse_unlisted(domain, section)
