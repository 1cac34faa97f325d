"""Each role of a series among the settings."""

from __future__ import annotations

import pytest

from outofcore.domains.neural.params import NameSection, ResampleSection
from outofcore.domains.neural.roles import COVARIATES, FRAMES, RESPONSES, SERIES


@pytest.mark.parametrize("role", SERIES, ids=lambda role: role.field)
def test_a_series_has_a_name_a_clock_and_a_resampling_among_the_settings(role):
    assert {role.field, role.times} <= set(NameSection.model_fields)
    assert (role.field in ResampleSection.model_fields) == (role != FRAMES)


def test_no_two_roles_share_what_they_are_called():
    for key in ("field", "entry", "noun", "times", "stream"):
        assert len({getattr(role, key) for role in SERIES}) == len(SERIES)
    assert {FRAMES.field, RESPONSES.field}.isdisjoint(role.field for role in COVARIATES)
