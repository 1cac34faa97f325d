"""Schema of a store part: one session, one row per bin, one sequence per gap-free stretch of a trial."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from outofcore.domains.neural.params import COVARIATES, NeuralSection, SourceSection
from outofcore.domains.neural.recordings.folder import LAYOUTS
from outofcore.domains.neural.recordings.recording import first_names
from outofcore.domains.neural.session_survey import SessionSurvey
from outofcore.domains.neural.sessions import FORMATS, Session
from outofcore.domains.neural.survey import MOST_LISTED, survey_sessions
from outofcore.domains.neural.transforms import stored_as
from outofcore.errors import RawInputError
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Reject
from outofcore.store.schema import Field, Schema

SEQUENCES = (
    Field(name="trial", dtype="int64", doc="label of the trial, or its number; a word by its hash"),
    Field(name="repeat", dtype="int64", doc="what was shown; -1 where nothing tells it", fill=-1),
    Field(name="source", dtype="int32", doc="number of the raw file in sources/"),
    Field(name="offset", dtype="int64", doc="bin of the session with which it begins"),
)
TIER = Field(name="tier", dtype="string", doc="the split that the recording states for the trial")


def schemas(section: NeuralSection, files: Sequence[RawFile]) -> dict[str, Schema]:
    """One part per convertible session; raises RawInputError with the first reason if there is none."""
    parts: dict[str, Schema] = {}
    refused: list[str] = []
    for session, survey in survey_sessions(files, section):
        if not isinstance(survey, Reject):
            parts[session.name] = session_schema(session, survey, section.source)
        elif session.kind != "none":
            refused.append(f"{session.file}: {survey.detail}")
    if not parts:
        more = f" (and {len(refused) - 1} more session{'s' * (len(refused) > 2)})" if len(refused) > 1 else ""
        first = refused[0] if refused else _unnamed([file.name for file in files], section.source.arrays)
        raise RawInputError(f"neural.raw: no session can be converted: {first}{more}")
    return parts


def _unnamed(files: Sequence[str], names: Iterable[str]) -> str:
    """Why files are no session, and the settings that read them if a program of the field wrote them."""
    known = [PurePosixPath(file).name for file in files]
    hints = [f"; as of {words}" for layout, words in LAYOUTS.items() if {*layout} <= {*known}]
    longer = ((name, file) for name in names for file in known if file.startswith(f"{name}."))
    if not hints and (pair := next(longer, None)):
        hints = [f"; {pair[0]} is not all of the name of {pair[1]}: write all of it, or rename the files"]
    message = f"no file has a known format of recordings or a name of source.names: {first_names(files, MOST_LISTED)}"
    return "".join([message, *hints])


def session_schema(session: Session, survey: SessionSurvey, source: SourceSection) -> Schema:
    rows = [
        Field(
            name="stim",
            dtype=str(stored_as(source.stimulus_dtype)),
            shape=survey.frame_shape,
            doc="frame on the screen in this bin",
            attributes={"stored_as": source.stimulus_dtype},
        ),
        Field(
            name="robs",
            dtype=source.response_dtype,
            shape=(survey.neurons,),
            axes=("neuron",),
            doc="response of each neuron: spikes in the bin, or the trace; 0 where dfs is",
        ),
        Field(
            name="dfs",
            dtype="uint8",
            shape=(survey.neurons,),
            axes=("neuron",),
            doc="1 where the response counts, 0 where not",
        ),
    ]
    if source.names.stimulus is None:
        del rows[0]
    rows += [
        Field(name=role.field, dtype="float32", shape=(columns,), doc=f"{role.noun.removeprefix('the ')} in this bin")
        for role in COVARIATES
        if (columns := survey.covariates.get(role.field))
    ]
    rows.append(
        Field(name="condition", dtype="int32", doc="equal where repeats show the same bin; -1: no repeat", fill=-1)
    )
    sequences = SEQUENCES if source.names.tier is None else (*SEQUENCES, TIER)
    return Schema(rows=tuple(rows), sequences=sequences, attributes=_attributes(session, survey, source))


def row_bytes(schema: Schema) -> int:
    """Decoded bytes per bin of a session."""
    return sum(field.row_bytes for field in schema.rows)


def _attributes(session: Session, survey: SessionSurvey, source: SourceSection) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "session": session.file,
        "bins": survey.alignment.bins,
        "bins_in_trials": int((survey.trials.stop - survey.trials.start).sum()),
        "neurons": survey.neurons,
        "behaviors": sum(survey.covariates.values()),
        "frame_shape": list(survey.frame_shape),
        "conditions": survey.trials.conditions,
        "trials": len(survey.trials),
    }
    if survey.units is not None:
        attributes["units"] = list(survey.units.rows)
        if survey.units.columns:
            attributes["unit_columns"] = {name: list(column) for name, column in survey.units.columns.items()}
    if (clock := survey.alignment.clock) is not None:
        attributes["clock"] = {
            "unit_in_file": FORMATS[session.kind].unit or source.time_unit,
            "first_bin_ns": clock.origin,
            "bin_width_ns": clock.width,
            "longest_ns": dict(survey.alignment.longest),
        }
    return attributes
