"""Splits of small sessions, of few films, and of pictures that several trials show."""

from __future__ import annotations

from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import outofcore
from outofcore.domains.neural import DOMAIN, survey
from outofcore.domains.neural.splits import divide, split_notes
from outofcore.domains.neural.trials import Trials
from outofcore.domains.sections import SplitSection
from outofcore.domains.splits import SPLITS
from outofcore.errors import ParamsError
from outofcore.raw.files import find_files
from tests.domains.neural.rig import section_of


def session(name, repeat):
    count = len(repeat)
    start, keys, split = np.arange(count) * 10, np.zeros((count, 16), np.uint8), np.zeros(count, np.int8)
    trials = Trials(start, start + 10, start, np.array(repeat, np.int64), start, 0, keys, split, np.full(count, ""))
    return SimpleNamespace(trials=trials, fingerprint=name.encode(), pictures=None)


def splits_of(repeats, **shares):
    """The split of each trial of each session, and the notes."""
    section = SplitSection(**shares)
    trials = divide({name: session(name, each) for name, each in repeats.items()}, section)
    notes = survey.by_subject({name: split_notes(each, section) for name, each in trials.items()})
    return {name: [SPLITS[place] for place in each.split.tolist()] for name, each in trials.items()}, notes


@pytest.mark.parametrize("count", [3, 4, 6, 10, 500])
@pytest.mark.parametrize(("val", "test"), [(0.05, 0.05), (0.2, 0.1), (0.5, 0.3), (0.1, 0), (0, 0.5), (0, 0)])
def test_every_split_with_a_share_gets_its_trials(count, val, test):
    wanted = {name for name, share in zip(SPLITS, (1 - val - test, val, test), strict=True) if share}
    chosen = set()
    for seed in range(8):
        repeats = {"a": [-1] * count, "b": [-1] * (count + 1)}
        found, notes = splits_of(repeats, val=val, test=test, seed=seed)
        assert not notes
        for name, each in found.items():
            assert set(each) == wanted
            for split, share in (("val", val), ("test", test)):
                assert each.count(split) == max(int(len(repeats[name]) * share + 1e-9), share > 0)
        assert splits_of(dict(reversed(repeats.items())), val=val, test=test, seed=seed)[0] == found
        assert splits_of({"a": repeats["a"]}, val=val, test=test, seed=seed)[0]["a"] == found["a"]
        chosen.add(tuple(found["a"]))
    assert len(chosen) > 1 or wanted == {"train"}


def film_at(place):
    return {2: 0, 5: 1}.get(place % 6, -1)


@pytest.mark.parametrize("films", [[0], [0, 1]])
def test_one_or_two_films_among_other_trials_are_in_validation(films):
    places = range(48)
    repeat = [film_at(place) if film_at(place) in films else -1 for place in places]
    for seed in range(20):
        found, notes = splits_of(dict.fromkeys("abc", repeat), val=0.2, test=0.1, seed=seed)
        shown = [{found[name][place] for name in "abc" for place in places if repeat[place] == film} for film in films]
        assert sorted(map(list, shown)) == [["train"], ["val"]][-len(films) :]
        assert not notes


def test_only_films_are_divided_as_well():
    for seed in range(20):
        found, _ = splits_of({"a": [0, 1] * 5, "b": [1, 0]}, val=0.2, test=0, seed=seed)
        assert set(found["a"]) == {"train", "val"}
        assert len(set(found["a"][::2] + found["b"][1:])) == len(set(found["a"][1::2] + found["b"][:1])) == 1
    found, notes = splits_of({"a": [0] * 5}, val=0.2, test=0.1)
    assert set(found["a"]) == {"train"}
    assert "too few trials and films" in notes[0]
    assert "no repeated film is in val" in notes[1]
    assert not splits_of({"a": [0, 1] * 5}, val=0, test=0.2)[1]


def test_without_a_share_of_train_nothing_is_in_train():
    assert sorted(splits_of({"a": [-1] * 5}, val=0.5, test=0.5)[0]["a"]) == ["test"] * 2 + ["val"] * 3


def test_films_of_several_sessions_are_in_one_split():
    for seed in range(20):
        repeats = {"a": [*range(30)] * 2, "b": [*range(20, 60)] * 2, "c": [-1] * 3}
        found, notes = splits_of(repeats, val=0.1, test=0.1, seed=seed)
        assert not notes
        of_film = {}
        for name, films in repeats.items():
            assert set(found[name]) == set(SPLITS)
            for film, split in zip(films, found[name], strict=True):
                assert film < 0 or of_film.setdefault(film, split) == split


def test_three_films_or_other_trials_of_a_session_fill_its_splits_next_to_many_in_common():
    own, common = [0, 1, 2] * 2 + [-1] * 3, [*range(10, 110)]
    for seed in range(20):
        repeats = {"a": own, "b": common, "c": common + own[6:], "d": common + [3, 4, 5] * 2}
        found, _ = splits_of(repeats, val=0.05, test=0.05, seed=seed)
        for each in (found["a"][:3], found["a"][6:], found["c"][100:], found["d"][100:103]):
            assert sorted(each) == ["test", "train", "val"]


def test_sessions_of_one_trial_share_out_the_splits():
    for seed in range(20):
        found, notes = splits_of({str(number): [-1] for number in range(5)}, val=0.05, test=0.05, seed=seed)
        assert sorted(split for each in found.values() for split in each) == ["test", "train", "train", "train", "val"]
        (note,) = notes
        assert note.startswith("0 and 4 more sessions: too few trials and films for all splits")
        assert "source.trial_bins" in note
        assert "source.names.repeat" in note


def test_an_input_is_surveyed_once_until_it_changes(tmp_path, frames, write_h5, monkeypatch, capsys):
    write_h5({name: array[:60] for name, array in frames.items()}, "b.h5")
    path = write_h5(frames)
    seen = []
    plain = survey.survey
    monkeypatch.setattr(survey, "survey", lambda *each: seen.append(1) or plain(*each))
    section = section_of(tmp_path, names={"stimulus": "stim", "responses": "robs", "trial": "trial"})
    files = find_files(tmp_path, "**/*", DOMAIN.suffixes, section="neural")
    for _ in range(3):
        schemas = DOMAIN.schemas(section, files)
        units = len(list(DOMAIN.units(files, section)))
    assert len(seen) == len(schemas) == units == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [line for line in lines if line.startswith("note: b.h5: too few trials")]
    assert len(lines) == 1
    write_h5({name: array[:400] for name, array in frames.items()}, path.name)
    assert DOMAIN.schemas(section, files)["session"].attributes["bins"] == 400
    assert len(seen) == 4


PICTURES = 40


def show(path, number, *, pictures, on_clock, trial=None, first=0):
    """Write a session that shows pictures by their numbers, for 3 frames each."""
    number = np.repeat(number, 3)
    arrays = {"scenes": pictures, "shown": number + first, "robs": np.ones((len(number), 2), np.float32)}
    if on_clock:
        arrays |= {"frame_times": np.arange(len(number)) / 60, "sample_times": np.arange(len(number)) / 60}
    if trial is not None:
        trial = np.asarray(trial) * 3
        arrays["trial"] = np.stack([trial[:-1], trial[1:]], 1) / (60 if on_clock else 1)
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def convert(folder, *, on_clock, marked, **source):
    names = {"stimulus": "scenes", "frame": "shown", "responses": "robs"}
    if on_clock:
        names |= {"frame_times": "frame_times", "sample_times": "sample_times"}
        source |= {"bin_width": 1 / 60}
    names |= {"trial": "trial"} if marked else {}
    source = {"names": names, **source}
    shares = {"val": 0.2, "test": 0.2}
    outofcore.convert("neural", folder / "raw", folder / "a.zarr", source=source, splits=shares, replace=True)
    return outofcore.open_store(folder / "a.zarr")


def pictures_of(store):
    """The pictures that each split shows, over all sessions."""
    found = {}
    for split in SPLITS:
        rows = [store.rows(split, part)["stim"].read() for part in store.parts]
        found[split] = {frame.tobytes() for each in rows for frame in each if np.ptp(frame)}
    return found


def test_full_fields_of_one_level_are_pictures_where_all_are(tmp_path):
    pictures = np.broadcast_to(np.arange(PICTURES, dtype=np.uint8)[:, None, None], (PICTURES, 3, 4))
    number = np.random.default_rng(3).permutation(np.repeat(np.arange(PICTURES), 4))
    show(tmp_path / "raw" / "a.h5", number, pictures=pictures, on_clock=True, trial=np.arange(len(number) + 1))
    store = convert(tmp_path, on_clock=True, marked=True)
    found = [set(store.rows(split, "a")["stim"].read()[:, 0, 0].tolist()) for split in SPLITS]
    assert [len(each) for each in found] == [24, 8, 8]
    assert set.union(*found) == set(range(PICTURES))


@pytest.mark.parametrize("on_clock", [True, False])
def test_a_picture_that_several_trials_show_is_in_one_split(tmp_path, on_clock):
    generator = np.random.default_rng(3)
    pictures = generator.integers(0, 256, (PICTURES, 3, 4)).astype(np.uint8)
    pictures[7] = pictures[31]  # stored twice
    pictures[5] = 127  # a grey screen is between all
    number = generator.permutation(np.repeat(np.arange(PICTURES), 4))
    trial = np.arange(len(number) + 1)
    show(tmp_path / "raw" / "a.h5", number, pictures=pictures, on_clock=on_clock, trial=trial)
    number = generator.permutation(np.repeat(np.arange(PICTURES), 4))
    show(tmp_path / "raw" / "b.h5", number, pictures=pictures[::-1], on_clock=on_clock, trial=trial)
    store = convert(tmp_path, on_clock=on_clock, marked=True)
    found = pictures_of(store)
    assert sum(map(len, found.values())) == PICTURES - 2 == len(set.union(*found.values()))
    assert [len(found[split]) for split in SPLITS] == pytest.approx([24, 7, 7], abs=3)
    assert store.part_attributes("a")["conditions"] == 3 * (PICTURES - 1)
    shown = store.sequences("val", "a")["repeat"].read()
    assert 31 not in shown
    condition, frames = store.rows("val", "a")["condition"].read(), store.rows("val", "a")["stim"].read()
    for each in np.unique(condition):
        assert len(np.unique(frames[condition == each], axis=0)) == 1


def test_trials_that_share_a_picture_through_others_are_in_one_split(tmp_path, capsys):
    pictures = np.random.default_rng(0).integers(0, 256, (PICTURES, 3, 4)).astype(np.uint8)
    # Trials of five pictures: those of a group of ten are shown in another order.
    groups = [np.arange(first, first + 5) for first in range(0, PICTURES, 5)]
    order = [each for first in range(0, 8, 2) for each in (*groups[first : first + 2], groups[first + 1][::-1])]
    mixed = [np.concatenate([order[0][:4], order[1][:1]]), *order]
    show(
        tmp_path / "raw" / "a.h5",
        np.concatenate(mixed),
        pictures=pictures,
        on_clock=True,
        trial=np.arange(len(mixed) + 1) * 5,
    )
    store = convert(tmp_path, on_clock=True, marked=True)
    found = pictures_of(store)
    assert all(found.values())
    assert sum(map(len, found.values())) == PICTURES == len(set.union(*found.values()))
    assert not capsys.readouterr().err
    unmarked = convert(tmp_path, on_clock=True, marked=False, trial_bins=20)
    assert sum(map(len, pictures_of(unmarked).values())) == PICTURES


def test_frames_may_be_numbered_from_one(tmp_path, capsys):
    pictures = np.random.default_rng(0).integers(0, 256, (PICTURES, 3, 4)).astype(np.uint8)
    number = np.arange(PICTURES)
    for first in (0, 1):
        show(tmp_path / "raw" / "a.h5", number, pictures=pictures, on_clock=False, first=first)
        store = convert(tmp_path, on_clock=False, marked=False, first_frame=first, trial_bins=3)
        rows = np.concatenate([store.rows(split, "a")["stim"].read() for split in SPLITS])
        assert {frame.tobytes() for frame in rows} == {frame.tobytes() for frame in pictures}
        assert len(rows) == 3 * PICTURES
        assert "first_frame" not in capsys.readouterr().err
    convert(tmp_path, on_clock=False, marked=False, trial_bins=3)
    assert "a.h5: names.frame never holds 0; if it numbers the frames from 1, set source.first_frame: 1" in (
        capsys.readouterr().err
    )
    with pytest.raises(ParamsError, match="first_frame is the first number in names"):
        outofcore.convert("neural", tmp_path, tmp_path / "b.zarr", source={"first_frame": 1})


def test_sessions_are_held_out_by_the_pattern_of_their_file_and_trials_by_number(tmp_path):
    pictures = np.random.default_rng(3).integers(0, 256, (PICTURES, 3, 4)).astype(np.uint8)
    for name in ("a", "b", "mouse7"):
        number = np.arange(PICTURES)
        show(tmp_path / "raw" / f"{name}.h5", number, pictures=pictures, on_clock=False, trial=np.arange(PICTURES + 1))
    names = {"stimulus": "scenes", "frame": "shown", "responses": "robs", "trial": "trial"}

    def rows_of(**splits):
        store = outofcore.convert(
            "neural", tmp_path / "raw", tmp_path / "a.zarr", source={"names": names}, splits=splits, replace=True
        )
        assert store["found"] == store["accepted"] == 3 * PICTURES
        store = outofcore.open_store(tmp_path / "a.zarr")
        return {part: [len(store.sequences(split, part)) for split in SPLITS] for part in store.parts}

    found = rows_of(val=0.2, test="mouse*")
    assert found["mouse7"] == [0, 0, PICTURES]
    assert found["a"] == found["b"] == [32, 8, 0]
    assert sorted(rows_of(by="file", val="a.h5", test="mouse*").values()) == [[0, 0, 40], [0, 40, 0], [40, 0, 0]]
    assert set(map(tuple, rows_of(by="trial", val=["3", "4"], test=[7]).values())) == {(37, 2, 1)}
