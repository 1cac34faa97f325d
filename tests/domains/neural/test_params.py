from __future__ import annotations

import pytest
from pydantic import ValidationError

from outofcore.domains.neural.params import (
    COVARIATES,
    FRAMES,
    RESPONSES,
    SERIES,
    NameSection,
    NeuralSection,
    ResampleSection,
)


def section(**source):
    return NeuralSection.model_validate({"raw": "x", "source": source})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"names": {"responses": None}}, "either responses or spike_times"),
        ({"names": {"spike_times": "s"}}, "either responses or spike_times"),
        ({"names": {"spike_neurons": "s"}}, "spike_neurons needs spike_times"),
        ({"names": {"responses": None, "spike_times": "s/*", "spike_neurons": "n"}}, "one vector of spike times"),
        ({"names": {"responses": None, "spike_times": "s", "spike_neurons": "n/*"}}, "one vector of spike times"),
        ({"names": {"frame_times": "t"}}, "frame_times is a clock of its own: set bin_width"),
        ({"names": {"responses": None, "spike_times": "s"}}, "set bin_width, in seconds"),
        ({"transforms": [{"name": "difference"}]}, "signed fractions, which stimulus_dtype uint8 cannot hold"),
        ({"repeats": {"count": 2, "order": "together"}, "names": {"frame": "f"}}, "one response per frame"),
        ({"transforms": [{"name": "rotate"}]}, "'crop', 'downsample', 'normalise', 'difference'"),
        ({"bin_width": -1}, "greater than 0"),
        ({"units": [{"column": ""}]}, "at least 1 character"),
    ],
)
def test_settings_that_contradict_each_other_are_named(source, words):
    with pytest.raises(ValidationError, match=words):
        section(**source)


def test_a_codec_by_itself_leaves_the_chunks_of_frames():
    layout = NeuralSection.model_validate({"raw": "x", "store": {"codec": "zstd"}}).store.layout()
    assert (layout.codec, layout.chunk_rows) == ("zstd", 128)
    with pytest.raises(ValidationError, match="multiple of chunk_rows"):
        NeuralSection.model_validate({"raw": "x", "store": {"chunk_rows": 48}})


def test_sections_can_be_keys():
    assert len({section(), section(), section(trial_bins=3)}) == 2


@pytest.mark.parametrize("role", SERIES, ids=lambda role: role.field)
def test_a_series_has_a_name_a_clock_and_a_resampling_among_the_settings(role):
    assert {role.field, role.times} <= set(NameSection.model_fields)
    assert (role.field in ResampleSection.model_fields) == (role != FRAMES)


def test_no_two_roles_share_what_they_are_called():
    for key in ("field", "entry", "noun", "times", "stream"):
        assert len({getattr(role, key) for role in SERIES}) == len(SERIES)
    assert {FRAMES.field, RESPONSES.field}.isdisjoint(role.field for role in COVARIATES)
