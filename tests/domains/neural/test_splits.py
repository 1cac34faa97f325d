"""Splits of small sessions, and of few films."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from outofcore.conversion.splits import SPLITS, assign
from outofcore.domains.neural import DOMAIN, survey
from outofcore.domains.neural.splits import settle, trial_keys
from outofcore.domains.neural.trials import Trials
from outofcore.domains.sections import SplitSection
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate
from tests.domains.neural.rig import section_of

SHARES = SplitSection(val=0.2, test=0.1)


def session(name, repeat):
    start = np.arange(len(repeat)) * 10
    trials = Trials(start, start + 10, start, np.array(repeat, np.int64), start, 0)
    return SimpleNamespace(trials=trials, fingerprint=name.encode())


def splits_of(sessions, shares):
    """The split of each trial of each session, and the notes."""
    moved, notes = settle(sessions, shares)
    found = {}
    for name, each in sessions.items():
        keys = trial_keys(each.fingerprint, each.trials.start, each.trials.repeat)
        places = assign(keys, shares).tolist()
        found[name] = [moved.get(key.tobytes(), SPLITS[place]) for key, place in zip(keys, places, strict=True)]
    return found, moved, notes


@pytest.mark.parametrize("count", [3, 4, 6, 10])
def test_every_split_with_a_share_gets_a_trial(count):
    for seed in range(60):
        shares = SplitSection(val=0.05, test=0.05, seed=seed)
        found, moved, notes = splits_of({"a": session("a", [-1] * count), "b": session("b", [-1] * count)}, shares)
        assert all(set(each) == set(SPLITS) for each in found.values())
        assert not notes
        assert len(moved) <= 4
        again, _, _ = splits_of({"a": session("a", [-1] * count), "b": session("b", [-1] * count)}, shares)
        assert found == again


def test_splits_without_a_share_stay_empty():
    for seed in range(20):
        found, _, notes = splits_of({"a": session("a", [-1] * 4)}, SplitSection(val=0.1, test=0, seed=seed))
        assert set(found["a"]) == {"train", "val"}
        found, moved, more = splits_of({"a": session("a", [-1])}, SplitSection(val=0, test=0, seed=seed))
        assert (found["a"], moved, notes, more) == (["train"], {}, [], [])


def test_two_films_leave_one_for_validation():
    for seed in range(60):
        shares = SplitSection(val=0.2, test=0.1, seed=seed)
        sessions = {name: session(name, [-1, -1, 0, -1, -1, 1] * 8) for name in "abc"}
        found, _, notes = splits_of(sessions, shares)
        films = {
            film: {found[name][place] for name in "abc" for place in range(48) if film_at(place) == film}
            for film in (0, 1)
        }
        assert all(len(splits) == 1 for splits in films.values())
        assert {"val"} in films.values()
        assert not notes


def film_at(place):
    return {2: 0, 5: 1}.get(place % 6, -1)


def test_only_films_are_divided_as_well():
    for seed in range(40):
        found, _, _ = splits_of({"a": session("a", [0, 1] * 5)}, SplitSection(val=0.2, test=0, seed=seed))
        assert set(found["a"]) == {"train", "val"}
        assert len(set(found["a"][::2])) == len(set(found["a"][1::2])) == 1


def test_large_sets_are_left_to_the_hash():
    for seed in range(10):
        shares = SplitSection(val=0.1, test=0.1, seed=seed)
        sessions = {"a": session("a", [-1] * 200 + list(range(100)) * 2), "b": session("b", [-1] * 9000)}
        assert settle(sessions, shares) == ({}, [])


def test_what_moves_empties_no_other_session():
    for seed in range(40):
        shares = SplitSection(val=0.1, test=0.1, seed=seed)
        sessions = {"a": session("a", [0, 1, 2] * 2), "b": session("b", [2, 3, 4, 5] * 2), "c": session("c", [-1] * 3)}
        found, _, _ = splits_of(sessions, shares)
        for name in "abc":
            assert set(found[name]) == set(SPLITS), (seed, name, found)


def test_sessions_of_one_trial_share_out_the_splits():
    for seed in range(30):
        sessions = {str(number): session(str(number), [-1]) for number in range(5)}
        found, _, notes = splits_of(sessions, SplitSection(val=0.05, test=0.05, seed=seed))
        assert {split for each in found.values() for split in each} == set(SPLITS)
        (note,) = notes
        assert note.startswith("0 and 4 more sessions: too few trials and films for all splits")
        assert "source.trial_bins" in note
        assert "source.names.repeat" in note


def test_a_lone_film_outside_validation_is_told():
    told = 0
    for seed in range(10):
        shares = SplitSection(val=0.2, test=0.1, seed=seed)
        found, _, notes = splits_of({"a": session("a", [0] * 3 + [-1] * 40)}, shares)
        assert notes == [] or "explainable variance is not measured" in notes[0]
        assert bool(notes) == (found["a"][0] != "val")
        told += bool(notes)
    assert told


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
        units = list(DOMAIN.units(files, section))
    assert len(seen) == len(schemas) == 2
    assert len(units) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [line for line in lines if line.startswith("note: b.h5: too few trials")]
    assert len(lines) == 1
    write_h5({name: array[:400] for name, array in frames.items()}, path.name)
    assert DOMAIN.schemas(section, files)["session"].attributes["bins"] == 400
    assert len(seen) == 4


def test_converted_sequences_are_in_the_splits_that_were_chosen(tmp_path, frames, write_h5):
    write_h5({name: array[:150] for name, array in frames.items()})
    for seed in range(8):
        section = section_of(tmp_path, names={"stimulus": "stim", "responses": "robs", "trial": "trial"})
        section = section.model_copy(update={"splits": SHARES.model_copy(update={"seed": seed})})
        files = find_files(tmp_path, "**/*", DOMAIN.suffixes, section="neural")
        converter, found = DOMAIN.converter(section, AuditRate()), []
        for unit in DOMAIN.units(files, section):
            made = converter(unit)
            by_hash = [SPLITS[place] for place in assign(made.keys, section.splits).tolist()]
            found += by_hash if made.split is None else made.split.tolist()
        assert sorted(found) == sorted(SPLITS)
