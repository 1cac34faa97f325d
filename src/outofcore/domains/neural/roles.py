"""The roles of the series of a session, a row of the table each.

A session has three kinds of data: series with an entry per sample and a clock, whose roles are here; spikes, an entry
per event (``spikes.py``); and intervals, the trials (``trials.py``).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    field: str  # of source.names and, of a covariate, of the rows in the store
    entry: str  # what an entry is called in reasons, counts and messages
    noun: str
    times: str  # the field of source.names that has its clock
    stream: str  # its key in the attributes of a store


FRAMES = Role("stimulus", "frame", "the stimulus", "frame_times", "shown")
RESPONSES = Role("responses", "sample", "the responses", "sample_times", "samples")
COVARIATES = (Role("behavior", "behavior", "the behaviour", "behavior_times", "behavior"),)
"""What is stored next to the responses, as float32, brought to the bins by ``source.resample``."""

SERIES = (FRAMES, RESPONSES, *COVARIATES)

SPIKES = Role("spike_times", "spike", "the spikes", "", "spikes")
