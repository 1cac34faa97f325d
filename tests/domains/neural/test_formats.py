"""The same session in every format, whole and damaged."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from outofcore.errors import OutOfCoreError, RawInputError
from tests.domains.neural.rig import NAMES, convert, save_session


@pytest.mark.parametrize("kind", ["h5", "npz", "compressed", "npy", "zarr", "mat"])
def test_a_column_by_its_number_and_time_along_another_axis_in_every_format(tmp_path, frames, kind):
    table = np.random.default_rng(3).normal(size=(600, 4))
    mask = frames["robs"] > 0
    arrays = {**frames, "table": table, "eye": table.T, "mask": mask.T.astype(np.uint8), "cell": np.eye(3)}
    result = convert(
        save_session(kind, tmp_path, arrays),
        names=NAMES | {"stimulus": "table[1]", "behavior": "eye", "valid": "mask"},
        stimulus_dtype="float32",
        time_axis={"behavior": 1, "valid": 1},
        units=[{"column": "cell[2]", "values": [0]}],
    )
    rows = result.only.rows
    np.testing.assert_array_equal(rows["stim"].reshape(-1), table[:, 1].astype(np.float32))
    np.testing.assert_array_equal(rows["behavior"], table.astype(np.float32))
    np.testing.assert_array_equal(rows["dfs"], mask[:, :2])
    assert [(each["trial"], each["offset"], each["length"]) for each in result.only.sequences] == [
        (number, 50 * number, 50) for number in range(12)
    ]
    assert not result.rejects
    with pytest.raises(RawInputError, match=r"set source.time_axis: \{behavior: 1\}, or save it the other way"):
        convert(tmp_path, names=NAMES | {"behavior": "eye"})


@pytest.mark.parametrize("kind", ["h5", "npz", "compressed", "mat"])
@pytest.mark.parametrize("seed", range(12))
def test_damage_anywhere_gives_rejects_or_one_line(tmp_path, frames, kind, seed):
    path = next(save_session(kind, tmp_path, frames).iterdir())
    generator = np.random.default_rng(seed)
    content = bytearray(path.read_bytes())
    # The beginning holds what says how the rest is to be read.
    for place in (*generator.integers(0, 3000, 3), *generator.integers(0, len(content), 2)):
        length = int(generator.integers(1, 60))
        content[place : place + length] = generator.bytes(length)
    path.write_bytes(content)
    message = ""
    with suppress(OutOfCoreError):
        try:
            convert(tmp_path, names=NAMES)
        except OutOfCoreError as error:
            message = str(error)
            raise
    assert "\n" not in message
    assert str(tmp_path) not in message
