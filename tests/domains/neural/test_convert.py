"""Sessions to rows, against plain numpy on the same arrays."""

from __future__ import annotations

import pickle
import re

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.domains.neural import DOMAIN, source
from outofcore.domains.neural.transforms import bfloat16_values
from outofcore.errors import RawInputError
from outofcore.raw.files import find_files
from outofcore.raw.unit import NO_AUDIT
from tests.domains.neural.rig import NAMES, convert, save_session, section_of


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_window_inside_a_sequence_is_always_valid(tmp_path_factory, data):
    bins = data.draw(st.integers(1, 60))
    labels = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=bins, max_size=bins)))
    bad = np.array(data.draw(st.lists(st.booleans(), min_size=bins, max_size=bins)))
    unit = data.draw(st.integers(1, 20))
    difference = data.draw(st.booleans())
    folder = tmp_path_factory.mktemp("session")
    stim = np.arange(bins * 4, dtype=np.float32).reshape(bins, 2, 2) ** 2
    stim[bad] = np.nan
    robs = np.arange(bins, dtype=np.float32)[:, None]
    np.savez(folder / "a.npz", stim=stim, robs=robs, trial=labels)
    transforms = [{"name": "difference"}] if difference else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "UNIT_BYTES", unit * 25)
        result = convert(folder, names=NAMES, stimulus_dtype="float32", transforms=transforms)
    # A bin counts if it has a label, a frame, and with a difference a bin of the same trial before it that has one.
    counts = (labels >= 0) & ~bad
    if difference:
        before = np.concatenate([[False], counts[:-1] & (labels[1:] == labels[:-1])])
        counts &= before
    stored = [place for place in range(bins) if counts[place]]
    sequences = result.parts["a"].sequences if result.parts else []
    told = [each["offset"] + step for each in sequences for step in range(each["length"])]
    assert told == stored
    for each in sequences:
        inside = labels[each["offset"] : each["offset"] + each["length"]]
        assert set(inside.tolist()) == {each["trial"]}
    if stored:
        rows = result.only.rows
        assert rows["robs"][:, 0].tolist() == stored
        expected = stim - np.roll(stim, 1, 0) if difference else stim
        assert np.array_equal(rows["stim"], expected[stored])
    kept = result.counts["bins_stored"] + result.counts["bins_rejected"] + result.counts["bins_without_predecessor"]
    assert kept + result.counts["bins_outside_trials"] == bins


@pytest.mark.parametrize("missing", ["not_finite", "masked", "no_behavior", "unreadable"])
def test_a_bin_without_a_response_costs_no_window_that_sees_its_frame(frames, write_h5, missing):
    arrays = {name: array[:400] for name, array in frames.items() if name != "trial"}
    arrays |= {"valid": np.ones(400, np.uint8), "running": np.arange(400.0)}
    lost = np.arange(7, 400, 20)
    name, value = {"masked": ("valid", 0), "no_behavior": ("running", np.nan)}.get(missing, ("robs", np.nan))
    arrays[name][lost] = value
    path = write_h5(arrays, robs={"chunks": (1, 3), "fletcher32": True})
    if missing == "unreadable":
        content = bytearray(path.read_bytes())
        with h5py.File(path) as file:
            for number in lost.tolist():
                content[file["robs"].id.get_chunk_info(number).byte_offset] ^= 1
        path.write_bytes(content)
    names = {"stimulus": "stim", "responses": "robs", "valid": "valid", "behavior": "running"}
    result = convert(path, names=names, response_dtype="uint8")
    assert not result.rejects
    assert result.counts["bins_without_response"] == result.counts[f"bins_without_response_{missing}"] == len(lost)
    assert [each["length"] for each in result.only.sequences] == [400]
    rows = result.only.rows
    assert np.array_equal(rows["stim"], arrays["stim"])
    assert np.flatnonzero((rows["dfs"] == 0).all(1)).tolist() == lost.tolist()
    assert not rows["robs"][lost].any()
    kept = np.setdiff1d(np.arange(400), lost)
    assert rows["dfs"][kept].all()
    assert np.array_equal(rows["robs"][kept], arrays["robs"][kept])
    assert np.array_equal(rows["behavior"][kept, 0], kept)
    assert not rows["behavior"][lost].any() or missing != "no_behavior"


def test_unequal_lengths_are_rejected_from_where_the_shorter_ends(frames, write_h5):
    frames["robs"] = frames["robs"][:575]
    result = convert(write_h5(frames), names=NAMES)
    assert [(each.reason, each.offset) for each in result.rejects] == [("unequal_length", 575)]
    assert result.counts["bins_rejected"] == 25
    assert len(result.only.rows["robs"]) == 575
    frames["trial"] = frames["trial"][:500]
    result = convert(write_h5(frames), names=NAMES)
    assert [(each.reason, each.offset) for each in result.rejects] == [("unequal_length", 500)]
    assert "bins without a label" in result.rejects[0].detail


def test_frames_that_the_stored_type_cannot_hold_are_rejected(frames, write_h5):
    stim = frames["stim"].astype(np.float64)
    stim[10, 0, 0], stim[11, 1, 1], stim[20, 2, 2] = 255.5, -3, np.inf
    path = write_h5(frames | {"stim": stim})
    result = convert(path, names=NAMES)
    assert [(each.reason, each.offset) for each in result.rejects] == [("stimulus_range", 10), ("not_finite", 20)]
    kept = np.r_[0:10, 12:20, 21:600]
    assert np.array_equal(result.only.rows["stim"], stim[kept])
    wide = convert(path, names=NAMES, stimulus_dtype="float32")
    assert wide.reasons == {"not_finite": 1}
    half = convert(path, names=NAMES, stimulus_dtype="bfloat16").only.rows["stim"]
    assert half.dtype == np.uint16
    np.testing.assert_allclose(bfloat16_values(half), stim[np.r_[0:20, 21:600]], rtol=2**-8)


@pytest.mark.parametrize(("dtype", "value"), [("uint8", 256), ("float32", 1e39)])
def test_a_file_of_refused_responses_can_be_corrected_at_once(frames, write_h5, dtype, value):
    path = write_h5(frames | {"robs": np.where(np.arange(600) == 5, value, 1.0)[:, None]})
    with pytest.raises(RawInputError, match="cannot hold") as refused:
        convert(path, names=NAMES, response_dtype=dtype)
    with h5py.File(path, "w") as file:  # while the traceback of the refusal is still there, as in a notebook
        assert not file.keys()
    assert refused.value.__traceback__ is not None


@pytest.mark.parametrize(
    ("dtype", "value"), [("uint8", 256), ("uint8", 0.5), ("uint8", -1), ("uint16", 65_536), ("float32", 1e39)]
)
def test_responses_that_the_stored_type_cannot_hold_end_the_conversion(frames, write_h5, dtype, value):
    frames["robs"] = frames["robs"].astype(np.float64)
    frames["robs"][5, 1] = value
    path, remedy = write_h5(frames), "set it to float32" if dtype != "float32" else "correct it in the file"
    message = f"session.h5: source.response_dtype {dtype} cannot hold a response of {value:g}: {remedy}"
    with pytest.raises(RawInputError, match=re.escape(message)):
        convert(path, names=NAMES, response_dtype=dtype)
    valid = np.arange(600) != 5  # what does not count need not fit
    result = convert(write_h5(frames | {"dfs": valid}), names=NAMES | {"valid": "dfs"}, response_dtype=dtype)
    assert result.counts["responses_masked"] == 3


def test_transforms_at_conversion(frames, write_h5):
    steps = [
        {"name": "crop", "top": 1, "left": 0, "height": 4, "width": 6},
        {"name": "downsample", "factor": 2},
        {"name": "difference"},
        {"name": "normalise", "mean": 1.0, "std": 2.0},
    ]
    result = convert(write_h5(frames), names=NAMES, transforms=steps, stimulus_dtype="float32")
    small = frames["stim"][:, 1:5, :6].reshape(600, 2, 2, 3, 2).astype(int).sum((2, 4))
    small = (small + 2) // 4
    expected = ((small[1:] - small[:-1]) - 1.0) / 2.0
    kept = np.arange(600) % 50 != 0
    assert np.array_equal(result.only.rows["stim"], expected[kept[1:]])
    assert result.counts["bins_without_predecessor"] == 12


def test_damage_inside_a_file_costs_the_bins_that_it_holds(frames, write_h5):
    path = write_h5(frames, stim={"chunks": (25, 6, 7), "compression": "gzip"})
    with h5py.File(path) as file:
        place = file["stim"].id.get_chunk_info(3)
    content = bytearray(path.read_bytes())
    content[place.byte_offset + 5 : place.byte_offset + 35] = bytes(30)
    path.write_bytes(content)
    result = convert(path, names=NAMES)
    assert [(each.reason, each.offset) for each in result.rejects] == [("unreadable", 75)]
    assert result.counts["bins_rejected"] == 25
    kept = np.r_[0:75, 100:600]
    assert np.array_equal(result.only.rows["stim"], frames["stim"][kept])


@pytest.mark.parametrize("labels", ["trial", "repeat"])
def test_damage_in_the_labels_of_trials_costs_the_session(frames, write_h5, labels):
    arrays = frames | {labels: np.arange(600) // 50}
    path = write_h5(arrays, **{labels: {"chunks": (50,), "fletcher32": True}})
    with h5py.File(path) as file:
        place = file[labels].id.get_chunk_info(3)
    content = bytearray(path.read_bytes())
    content[place.byte_offset] ^= 1
    path.write_bytes(content)
    with pytest.raises(RawInputError, match=rf"no session can be converted: session\.h5: .*{labels}.*"):
        convert(path, names=NAMES | {labels: labels})


def test_a_bad_session_costs_itself_alone(tmp_path, frames, write_h5):
    write_h5(frames, "good.h5")
    write_h5({key: array for key, array in frames.items() if key != "robs"}, "no_responses.h5")
    broken = write_h5(frames, "truncated.h5")
    broken.write_bytes(broken.read_bytes()[:-100])
    (tmp_path / "notes.txt").write_text("three sessions\n")
    result = convert(tmp_path, names=NAMES)
    assert set(result.parts) == {"good"}
    assert result.reasons == {"missing_field": 1, "unreadable_file": 1}
    assert "names.responses = 'robs': no such array; there are stim, trial" in result.rejects[0].detail
    assert result.counts["files_unused"] == 1
    assert (result.found, result.accepted) == (14, 12)


def test_frames_by_number_and_repeats_by_order(write_h5):
    pictures = np.arange(5 * 4, dtype=np.uint8).reshape(5, 2, 2)
    number = np.array([0, 3, -1, 4, 4, 7, 2, 0], float)
    robs = np.arange(8.0)[:, None]
    path = write_h5({"pictures": pictures, "number": number, "robs": robs})
    result = convert(path, names={"stimulus": "pictures", "frame": "number"}, trial_bins=1)
    kept = [0, 1, 3, 4, 6, 7]
    assert np.array_equal(result.only.rows["stim"], pictures[number[kept].astype(int)])
    assert result.reasons == {"no_frame": 2}
    assert [each["repeat"] for each in result.only.sequences] == [0, 3, 4, 4, 2, 0]
    assert len({each["key"] for each in result.only.sequences}) == 4
    assert result.only.rows["condition"].tolist() == [0, -1, 1, 1, -1, 0]

    for order, shown in (("together", np.arange(10) // 2), ("in_turn", np.arange(10) % 5)):
        path = write_h5({"stim": pictures, "robs": np.arange(10.0)[:, None]})
        result = convert(path, repeats={"count": 2, "order": order}, trial_bins=1)
        assert np.array_equal(result.only.rows["stim"], pictures[shown])
        assert [each["repeat"] for each in result.only.sequences] == shown.tolist()
        assert result.only.rows["condition"].tolist() == shown.tolist()


def test_repeats_share_their_key_in_all_sessions_and_stretches_of_a_trial_too(tmp_path, frames, write_h5):
    stim = frames["stim"].astype(np.float32)
    stim[75] = np.nan
    frames["stim"] = stim
    film = np.array(["film", "a", "b", "film", "c", "d", "e", "f", "g", "h", "film", "i"], "S")
    for name in ("a.h5", "b.h5"):
        write_h5(frames | {"film": film}, name)
        frames["robs"] = frames["robs"] + 1
    result = convert(tmp_path, names=NAMES | {"repeat": "film"})
    first, second = (result.parts[name].sequences for name in "ab")
    assert first[1]["key"] == first[2]["key"]
    films = [each["key"] for each in (*first, *second) if each["trial"] in (0, 3, 10)]
    assert len(set(films)) == 1
    assert len({each["key"] for each in first}) == 10
    condition = result.parts["a"].rows["condition"]
    assert condition[:50].tolist() == list(range(50))
    unmarked = convert(tmp_path, names=NAMES)
    keys = [each["key"] for part in unmarked.parts.values() for each in part.sequences]
    assert len(set(keys)) == 24  # 13 stretches of 12 trials in each session


def test_a_session_is_opened_once_for_all_its_units_and_closed_after_them(frames, write_h5, monkeypatch):
    path, opened = write_h5(frames), []
    plain = h5py.File
    monkeypatch.setattr(h5py, "File", lambda name, *rest, **more: opened.append(name) or plain(name, *rest, **more))
    monkeypatch.setattr(source, "UNIT_BYTES", 5000)
    result = convert(path, names=NAMES)
    assert result.units > 5
    assert opened == [path, path]  # for the survey of all sessions, and for the units of this one
    with plain(path, "r+") as file:  # HDF5 refuses to write to a file that is open
        file["robs"][0] = 7


def test_words_of_zarr_are_those_of_numpy(frames, tmp_path):
    words, found = np.array([f"trial {label}" for label in frames["trial"]]), []
    for kind, dtype in (("npz", words.dtype), ("zarr", np.dtypes.StringDType())):
        (tmp_path / kind).mkdir()
        save_session(kind, tmp_path / kind, frames | {"trial": words.astype(dtype)})
        found.append(convert(tmp_path / kind, names=NAMES).only)
    assert len(found[0].sequences) > 5
    assert [each["trial"] for each in found[0].sequences] == [each["trial"] for each in found[1].sequences]


def test_a_session_that_is_gone_is_opened_once_for_a_unit_in_another_process(frames, write_h5, monkeypatch):
    section, opened = section_of(write_h5(frames), names=NAMES), []
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section="neural")
    (unit,) = pickle.loads(pickle.dumps(list(DOMAIN.units(files, section))))
    files[0].path.unlink()
    plain = h5py.File
    monkeypatch.setattr(h5py, "File", lambda name, *rest, **more: opened.append(name) or plain(name, *rest, **more))
    with pytest.raises(FileNotFoundError):
        DOMAIN.converter(section, NO_AUDIT)(unit)
    assert opened == [files[0].path]
