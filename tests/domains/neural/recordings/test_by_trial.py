"""Arrays by trial: values that say of which trial they are must meet those of the same trial."""

from __future__ import annotations

import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.errors import RawInputError
from tests.domains.neural.rig import convert, save_session

NAMES = {"stimulus": "trial_*/stim", "responses": "trial_*/robs", "valid": "valid/*/mask"}
LENGTHS = st.dictionaries(st.integers(1, 12), st.integers(0, 6), min_size=1)


@settings(deadline=None, max_examples=15)
@given(LENGTHS, LENGTHS, LENGTHS, st.sampled_from(["h5", "zarr", "npy"]))
def test_only_arrays_of_the_same_trial_meet(stim, robs, mask, kind):
    arrays = {f"trial_{trial}/stim": np.full((size, 2, 2), trial, np.uint8) for trial, size in stim.items()}
    arrays |= {f"trial_{trial}/robs": np.full((size, 1), trial, np.float32) for trial, size in robs.items()}
    arrays |= {f"valid/{trial}/mask": np.full(size, trial % 2, np.uint8) for trial, size in mask.items()}
    sizes = {trial: min(stim[trial], robs[trial], mask[trial]) for trial in stim.keys() & robs.keys() & mask.keys()}
    sizes = {trial: size for trial, size in sorted(sizes.items()) if size}
    cut = [trial for trial, size in sizes.items() if max(stim[trial], robs[trial], mask[trial]) > size]
    with tempfile.TemporaryDirectory() as folder:
        path = save_session(kind, Path(folder), arrays)
        if not sizes:
            with pytest.raises(RawInputError, match=r"trial \d+: names\."):
                convert(path, names=NAMES)
            return
        result = convert(path, names=NAMES)
    rows = result.only.rows
    assert [(each["trial"], each["length"]) for each in result.only.sequences] == [*sizes.items()]
    trials = np.repeat([*sizes], [*sizes.values()])
    assert rows["stim"][:, 0, 0].tolist() == trials.tolist()
    assert rows["dfs"][:, 0].tolist() == (trials % 2).tolist()
    assert rows["robs"][:, 0].tolist() == (trials * (trials % 2)).tolist()
    assert result.reasons["unequal_length"] == len(cut)
    every = {*stim, *robs, *mask}
    assert len(result.rejects) == len(every) - len(sizes) + len(cut)
    for trial in every - sizes.keys():
        (reject,) = (each for each in result.rejects if f"trial {trial}: names." in each.detail)
        assert reject.offset == sorted(every).index(trial)
    ends = np.cumsum([*sizes.values()]).tolist()
    unequal = [each.offset for each in result.rejects if each.reason == "unequal_length"]
    assert unequal == [end for trial, end in zip(sizes, ends, strict=True) if trial in cut]


def test_what_a_trial_shows_is_paired_too(tmp_path):
    trials = {1: 7, 2: 9, 4: 7}
    arrays = {f"t{trial}/stim": np.full((3, 2, 2), trial, np.uint8) for trial in (1, 2, 3, 4)}
    arrays |= {f"t{trial}/robs": np.full((3, 1), trial, np.float32) for trial in (1, 2, 3, 4)}
    arrays |= {f"t{trial}/film": np.array([film]) for trial, film in trials.items()}
    names = {"stimulus": "t*/stim", "responses": "t*/robs", "repeat": "t*/film"}
    result = convert(save_session("h5", tmp_path, arrays), names=names)
    assert {each["trial"]: each["repeat"] for each in result.only.sequences} == trials
    (reject,) = result.rejects
    assert reject.detail == "trial 3: names.repeat has no array for it (t3/film)"


def test_one_vector_of_films_has_an_entry_for_each_trial_that_any_array_has(tmp_path):
    arrays = {f"t{trial}/stim": np.zeros((3, 2, 2), np.uint8) for trial in (1, 2, 3)}
    arrays |= {f"t{trial}/robs": np.zeros((3, 1), np.float32) for trial in (1, 3)} | {"films": np.array([5, 6, 7])}
    names = {"stimulus": "t*/stim", "responses": "t*/robs", "repeat": "films"}
    result = convert(save_session("h5", tmp_path, arrays), names=names)
    assert [(each["trial"], each["repeat"]) for each in result.only.sequences] == [(1, 5), (3, 7)]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"responses": "all"}, "names.responses is one array of 9 entries for trials of 8"),
        ({"responses": "t*/*/robs"}, r"expected as many \* in each"),
        ({"trial": "films"}, "names.trial and an array for each trial contradict each other"),
        ({"responses": "s*/robs"}, r"names.responses = 's\*/robs': no such array"),
        ({"frame": "t*/number"}, "names.frame and an array for each trial contradict each other"),
        ({"responses": "t*/wide"}, r"expected arrays that differ along time alone, got rows of \[\(1,\), \(2,\)\]"),
    ],
)
def test_what_cannot_be_paired_is_refused(tmp_path, names, message):
    arrays = {f"t{trial}/stim": np.zeros((4, 2, 2), np.uint8) for trial in (1, 2)} | {"all": np.zeros((9, 2))}
    arrays |= {f"t{trial}/{name}": np.zeros((4, 1)) for trial in (1, 2) for name in ("robs", "number", "x/robs")}
    arrays |= {f"t{trial}/wide": np.zeros((4, trial)) for trial in (1, 2)}
    path = save_session("h5", tmp_path, arrays | {"films": np.arange(8)})
    names = {"stimulus": "t*/stim", "responses": "t*/robs"} | names
    with pytest.raises(RawInputError, match=message):
        convert(path, names=names)
    with pytest.raises(RawInputError, match=f"{message}|no common clock: set source.bin_width to null"):
        convert(path, names=names, bin_width=1.0)


def test_an_array_of_another_kind_costs_its_trial_and_words_are_labels(tmp_path):
    arrays = {f"{trial}/stim": np.zeros((4, 2, 2), np.uint8) for trial in ("sea", "hill", "7")}
    arrays |= {"sea/robs": np.ones((4, 1)), "hill/robs": np.float64(3), "7/robs": np.ones((4, 1))}
    result = convert(save_session("h5", tmp_path, arrays), names={"stimulus": "*/stim", "responses": "*/robs"})
    first, second = result.only.sequences
    assert first["trial"] != second["trial"]
    assert min(first["trial"], second["trial"]) > 2**32
    assert result.reasons == {"wrong_type": 1}
    assert "trial hill: names.responses = 'hill/robs': expected an array of numbers" in result.rejects[0].detail


@pytest.mark.parametrize("version", [5, 7.3])
def test_matlab_cells_are_trials(tmp_path, version):
    generator = np.random.default_rng(0)
    sizes = (5, 0, 3, 4)
    stim = [generator.integers(0, 256, (size, 2, 3)).astype(np.uint8) for size in sizes]
    robs = [generator.normal(size=(size, 2)) for size in sizes]
    if version == 5:
        cells = {"stim": np.empty((1, 4), object), "robs": np.empty((1, 4), object)}
        for place in range(4):
            cells["stim"][0, place], cells["robs"][0, place] = stim[place], robs[place]
        scipy.io.savemat(tmp_path / "a.mat", cells)
    else:
        with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
            for name, arrays in (("stim", stim), ("robs", robs)):
                made = [file.create_dataset(f"#refs#/{name}{place}", data=each.T) for place, each in enumerate(arrays)]
                for each in made:
                    each.attrs["MATLAB_class"] = np.bytes_("double")
                cell = file.create_dataset(name, data=np.array([[each.ref] for each in made], h5py.ref_dtype))
                cell.attrs["MATLAB_class"] = np.bytes_("cell")
    result = convert(tmp_path, names={"stimulus": "stim", "responses": "robs"})
    assert [(each["trial"], each["length"]) for each in result.only.sequences] == [(1, 5), (3, 3), (4, 4)]
    assert np.array_equal(result.only.rows["stim"], np.concatenate(stim))
    np.testing.assert_allclose(result.only.rows["robs"], np.concatenate(robs), rtol=1e-6)
    assert result.reasons == {"no_bin": 1}


@pytest.mark.parametrize("robs", [(1, 3), (1, 2, 3, 4)])
def test_a_number_of_cells_that_is_another_is_refused(tmp_path, robs):
    """Which of them is missing cannot be known."""
    cells = {name: np.empty((1, len(each)), object) for name, each in {"stim": (1, 2, 3), "robs": robs}.items()}
    for place, trial in enumerate((1, 2, 3)):
        cells["stim"][0, place] = np.full((5, 2, 2), trial, np.uint8)
    for place, trial in enumerate(robs):
        cells["robs"][0, place] = np.full((5, 1), float(trial))
    scipy.io.savemat(tmp_path / "a.mat", cells)
    with pytest.raises(RawInputError, match=f"got others: names.stimulus has 3, names.responses has {len(robs)}"):
        convert(tmp_path, names={"stimulus": "stim", "responses": "robs"})


def test_names_that_count_from_zero_are_not_paired_with_cells(tmp_path):
    cells = np.empty((1, 2), object)
    for place in range(2):
        cells[0, place] = np.full((5, 1), float(place))
    names = {"stimulus": "stim*", "responses": "robs"}
    arrays = {f"stim{trial}": np.full((5, 2, 2), trial, np.uint8) for trial in range(2)} | {"robs": cells}
    scipy.io.savemat(tmp_path / "a.mat", arrays)
    with pytest.raises(RawInputError, match="cells are paired by their numbers, from 1"):
        convert(tmp_path, names=names)
    arrays["stim2"] = arrays.pop("stim0")
    scipy.io.savemat(tmp_path / "a.mat", arrays)
    rows = convert(tmp_path, names=names).only.rows
    assert rows["stim"][::5, 0, 0].tolist() == [1, 0]
    assert rows["robs"][::5, 0].tolist() == [0, 1]
