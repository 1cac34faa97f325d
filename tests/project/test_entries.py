from __future__ import annotations

import subprocess
import sys
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


def test_the_check_of_settings_imports_nothing_that_takes_long() -> None:
    stage = Path(__file__).parents[2] / "stages" / "check.py"
    code = f"import runpy, sys; runpy.run_path({str(stage)!r}); print({{'numba', 'torch', 'zarr'}} & {{*sys.modules}})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
