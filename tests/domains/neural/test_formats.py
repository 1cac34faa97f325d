"""The same session in every format, whole and damaged."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from outofcore.errors import OutOfCoreError, RawInputError
from tests.domains.neural.rig import NAMES, convert, save_session


@pytest.mark.parametrize("kind", ["h5", "npz", "compressed", "npy", "zarr", "mat"])
def test_every_format_gives_the_same_rows(tmp_path, frames, kind):
    result = convert(save_session(kind, tmp_path, frames), names=NAMES)
    part = result.only
    assert np.array_equal(part.rows["stim"], frames["stim"])
    assert np.array_equal(part.rows["robs"], frames["robs"])
    assert part.rows["dfs"].all()
    assert [(each["trial"], each["offset"], each["length"]) for each in part.sequences] == [
        (number, 50 * number, 50) for number in range(12)
    ]
    assert not result.rejects


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
    with pytest.raises(RawInputError, match=r"set source.time_axis: \{behavior: 1\}, or save it the other way"):
        convert(tmp_path, names=NAMES | {"behavior": "eye"})


def test_tables_of_text_are_responses_of_many_neurons(tmp_path):
    generator = np.random.default_rng(2)
    stim, robs = generator.integers(0, 256, (2000, 12)).astype(np.uint8), generator.poisson(1, (2000, 5)).astype(float)
    robs[70, 2] = np.nan
    np.savetxt(tmp_path / "robs.csv", robs, delimiter=",", header="a,b,c,d,e", comments="", fmt="%g")
    np.savetxt(tmp_path / "stim.txt", stim, fmt="%d")
    settings = {"frame_shape": [3, 4], "trial_bins": 100, "names": {"stimulus": "stim.txt", "responses": "robs.csv"}}
    result = convert(tmp_path, **settings)
    assert np.array_equal(result.only.rows["stim"].reshape(2000, 12), stim)
    assert np.array_equal(result.only.rows["robs"], np.nan_to_num(robs))
    assert result.counts["responses_masked"] == 1
    with pytest.raises(RawInputError, match=r"names.frame_times = .*: expected a vector, got shape \(2000, 12\)"):
        convert(tmp_path, bin_width=0.1, names=settings["names"] | {"frame_times": "stim.txt"})


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
