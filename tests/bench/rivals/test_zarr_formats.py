"""All sides deliver the same numbers of maps and windows, of both formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rivals import in_place, zarr_formats


@pytest.mark.parametrize("windows", [False, True], ids=["shuffled", "windows"])
def test_every_side_reads_each_sample_of_both_formats_once(tmp_path: Path, *, windows: bool) -> None:
    for number in zarr_formats.FORMATS:
        in_place.write(str(tmp_path / f"v{number}"), [150, *zarr_formats.MAP], 1, zarr_format=number)
        assert (tmp_path / f"v{number}" / "X" / ("zarr.json" if number == 3 else ".zarray")).exists()
    sides = zarr_formats.sides(str(tmp_path), None, windows=windows)
    assert [side.name.partition(",")[0] for side in sides] == ["outofcore", "zarr-python"] * 2
    for side in sides:
        epoch = side.function(**json.loads(json.dumps(side.arguments)))
        assert sum(epoch()) == (143 if windows else 150)
