"""The neural section of params.yaml, and the roles of the series of a session, a row of the table each.

A session has three kinds of data: series with an entry per sample and a clock, whose roles are here; spikes, an entry
per event (``spikes.py``); and intervals, the trials (``trials.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import not_
from typing import Annotated, Literal

from pydantic import Field, model_validator

from outofcore.checks import MOST
from outofcore.domains.domain import Section
from outofcore.domains.neural.resampling import Resampling
from outofcore.domains.neural.transforms import SIGNED, ResponseType, StimulusType, Transforms, bins_before
from outofcore.domains.own_network import network_setting
from outofcore.domains.sections import DomainSection, Filters, Raw, StoreSection, TrainSection, is_unset
from outofcore.store.codecs import CodecName


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

TimeUnit = Literal["s", "ms", "us", "ns"] | Annotated[float, Field(gt=0, le=1e9)]
"""A number is a rate: times are numbers of samples, so many per second."""
Shape = Annotated[tuple[Annotated[int, Field(ge=1, le=2**20)], ...], Field(min_length=1, max_length=8)]


class NameSection(Section):
    """Where to find each array of a session.

    The path inside an HDF5, NWB, MATLAB or Zarr file, the member of an .npz, or the file of a folder (``spikes.npy``;
    ``stimulus.txt.gz[1]`` or ``run.csv[speed]`` for a column of text). A name with ``*``, or of MATLAB cells, means an
    array for each trial; those of one trial share what ``*`` stands for. An array that is named must exist.
    """

    stimulus: str | None = Field(
        "stim", description="frames, time first: (frames, height, width), or of any other shape; null: no stimulus"
    )
    responses: str | None = Field("robs", description="samples of every neuron: (samples, neurons)")
    spike_times: str | None = Field(
        None, description="instead of responses: one vector a neuron (a group, MATLAB cells, NWB units) or a single one"
    )
    spike_neurons: str | None = Field(None, description="the neuron of each spike, where spike_times is one vector")
    frame: str | None = Field(
        None, description="number of the frame shown, where the stimulus holds each frame once; negative: none"
    )
    behavior: str | None = Field(None, description="samples of behaviour: (samples, variables)")
    valid: str | None = Field(None, description="where data count, not 0: (samples,) or (samples, neurons)")
    trial: str | tuple[str, str] | None = Field(
        None,
        description="label of each frame (negative: none), (trials, 2) start and stop times, or two names: of starts "
        "and stops",
    )
    repeat: str | None = Field(None, description="what was shown, a number or a word: of each trial, or of each frame")
    tier: str | None = Field(
        None,
        exclude_if=is_unset,
        description="the split that the recording's authors gave to each trial or frame, a word or a number; for "
        "splits.by: tier",
    )
    frame_times: str | None = Field(None, description="when each frame came on the screen")
    sample_times: str | None = Field(None, description="when each sample of the responses was taken")
    behavior_times: str | None = Field(None, description="when each sample of behaviour was taken")

    @model_validator(mode="after")
    def _one_response(self) -> NameSection:
        if (self.responses is None) == (self.spike_times is None):
            raise ValueError("expected either responses or spike_times, the other null")
        if self.spike_neurons is not None and self.spike_times is None:
            raise ValueError("spike_neurons needs spike_times")
        if self.spike_neurons is not None and "*" in f"{self.spike_times}{self.spike_neurons}":
            raise ValueError("spike_neurons needs one vector of spike times, without *")
        return self


class UnitCondition(Section):
    """What a column of the table of units must have; with the column alone, its values are kept in the store."""

    column: str = Field(
        min_length=1,
        description="quality, location; in other formats than NWB an array with an entry per neuron, or spike_neurons",
    )
    values: tuple[str | bool | int | float, ...] | None = Field(
        None, description="one of these words, in which * and ? stand for any characters, or numbers"
    )
    min: float | None = Field(None, description="a number of at least this")
    max: float | None = Field(None, description="a number of at most this")

    @property
    def kept(self) -> bool:
        """Whether it is no condition: all units have the column's values in the store."""
        return self.values is None and self.min is None and self.max is None


class AxisSection(Section):
    """Which axis is time, for files that do not keep it first; of other arrays it is the first."""

    stimulus: int = Field(0, ge=0, le=7)
    responses: int = Field(0, ge=0, le=1)
    # Stores without these keep the bytes that they had before.
    behavior: int = Field(0, ge=0, le=1, exclude_if=not_)
    valid: int = Field(0, ge=0, le=1, exclude_if=not_)


class ResampleSection(Section):
    """How samples are brought to the clock of the bins, by a function of ``resampling.py``; frames are held."""

    responses: Resampling = "mean"
    behavior: Resampling = "linear"


class RepeatSection(Section):
    """Repeats given by the order of the responses, if the stimulus holds each frame once."""

    count: int = Field(ge=1, description="how often each frame was shown")
    order: Literal["together", "in_turn"] = Field(
        description="together: all repeats of a frame one after another; in_turn: all frames, then all frames again"
    )


class SourceSection(Section):
    """How sessions are read and brought to one clock."""

    names: NameSection = NameSection()
    bin_width: float | None = Field(
        None, gt=0, description="seconds of a bin; null: a bin is a frame, and all arrays share their axis of time"
    )
    time_unit: TimeUnit = Field(
        "s", description="unit of all times in the files, or samples per second; NWB always has seconds"
    )
    spike_unit: TimeUnit | None = Field(None, description="unit of the spike times, where it is another")
    units: tuple[UnitCondition, ...] = Field(
        (), description="which neurons are read, those that meet every condition; and which columns of them are kept"
    )
    first_frame: Literal[0, 1] = Field(0, description="number of the first frame in names.frame")
    trial_bins: int = Field(1024, ge=1, le=2**31, description="bins of a trial where the files mark no trials")
    frame_shape: Shape | None = Field(None, description="shape of a frame where files keep it flat")
    time_axis: AxisSection | None = Field(AxisSection(), description="null: each array by trial is of a single bin")
    resample: ResampleSection = ResampleSection()
    repeats: RepeatSection | None = None
    stimulus_dtype: StimulusType = Field(
        "uint8", description="stored type of a pixel; a frame that it cannot hold as it is, is rejected"
    )
    response_dtype: ResponseType = Field("float32", description="stored type of a response; counts fit uint8 or uint16")
    transforms: Transforms = Field((), description="applied to the frames once, before they are stored")

    def axis_of(self, field: str) -> int:
        """The axis of time of the arrays of a field of ``names``."""
        return getattr(self.time_axis, field, 0)

    @property
    def arrays(self) -> list[str]:
        """Names and patterns of everything that is read."""
        given = (name for name in self.names.model_dump().values() if name is not None)
        names = (part for name in given for part in ([name] if isinstance(name, str) else name))
        return [*names, *(condition.column for condition in self.units)]

    @model_validator(mode="after")
    def _consistent(self) -> SourceSection:
        names = self.names
        framed: dict[str, object] = {"names.frame": names.frame, "names.frame_times": names.frame_times}
        framed |= {"frame_shape": self.frame_shape, "repeats": self.repeats, "transforms": self.transforms}
        if names.stimulus is None and any(framed.values()):
            raise ValueError(
                f"{next(filter(framed.get, framed))} is of the frames, and names.stimulus is null: leave it out"
            )
        signed = [step.name for step in self.transforms if step.name in SIGNED]
        if signed and self.stimulus_dtype == "uint8":
            raise ValueError(f"transforms: {signed[0]} gives signed fractions, which stimulus_dtype uint8 cannot hold")
        if self.repeats is not None and (self.names.frame is not None or self.bin_width is not None):
            raise ValueError("repeats expects one response per frame: leave out names.frame and bin_width")
        if self.first_frame and self.names.frame is None:
            raise ValueError("first_frame is the first number in names.frame, which is null")
        timed = [role.times for role in SERIES if getattr(self.names, role.times)]
        if self.bin_width is None and (timed or self.names.spike_times is not None):
            raise ValueError(f"names.{(timed or ['spike_times'])[0]} is a clock of its own: set bin_width, in seconds")
        return self


class FilterSection(Filters):
    """Which records are kept."""

    duplicates: Literal["keep"] = Field("keep", description="trials of equal stimulus are repeats, not duplicates")


class TensorSection(Section):
    """Definition of a sample and the conversion of its frames to numbers."""

    lags: int = Field(32, ge=1, le=2**20, description="frames of a sample, the last one is that of the predicted bin")
    history: int = Field(
        0,
        ge=0,
        le=2**20,
        description="bins before the predicted one, of which the model sees the responses of all neurons",
    )
    cast: Literal["centred", "unit", "none"] = Field(
        "centred", description="of uint8 pixels, on the device: centred (x - 127) / 255, unit x / 255, none x"
    )
    transforms: Transforms = Field(
        (), description="applied to the frames at every read, on the device, before the cast"
    )

    @property
    def frames(self) -> int:
        """Frames that a sample reads: the lags, and those that the transforms need before them."""
        return self.lags + bins_before(self.transforms)

    @property
    def window(self) -> int:
        """Bins that a sample reads."""
        return max(self.frames, self.history + 1)


class NeuralStoreSection(StoreSection):
    """Store layout. Frames are large compared with chess positions, so chunks hold fewer rows."""

    codec: CodecName = "lz4"
    chunk_rows: int = Field(128, ge=16, le=2**26, description="bins decoded at once: 128 frames of 36 x 64 are 295 KB")
    shard_rows: int = Field(65_536, ge=16, le=2**40, description="bins of a file, a multiple of chunk_rows")


class NeuralTrainSection(TrainSection):
    """Training of an encoder: the shared core and the readouts."""

    network: str = network_setting("convolutions")
    preset: Literal["test", "small", "medium", "large"] = "test"
    batch_size: int = Field(
        256, ge=1, le=MOST, description="windows an optimizer step, over all ranks and micro-batches"
    )
    held_out: Annotated[float, Field(gt=0, lt=1)] | UnitCondition | None = Field(
        None,
        description="neurons that are only predicted, from what the others do in the same bin and in tensors.history: "
        "a share, evenly spaced, or those of which a kept column of source.units meets a condition",
    )
    loss: Literal["poisson", "squared"] = Field(
        "poisson", description="poisson for counts and rates; squared for traces, which may be negative"
    )

    @property
    def has_core(self) -> bool:
        """Whether frames pass a core that sessions share, before the readouts."""
        return ":" in self.network or self.preset != "test"


class NeuralSection(DomainSection):
    """All neural settings that change the bytes of the store or the model."""

    raw: Raw = Field(description="a session, or a folder of them, of the formats in docs/neural.md")
    source: SourceSection = SourceSection()
    filters: FilterSection = FilterSection()
    store: NeuralStoreSection = NeuralStoreSection()
    tensors: TensorSection = TensorSection()
    train: NeuralTrainSection = NeuralTrainSection()

    @model_validator(mode="after")
    def _equal_records_in_one_split(self) -> NeuralSection:
        if self.splits.by not in ("content", "file", "trial", "repeat", "tier"):
            raise ValueError(
                "splits.by: recordings are split by trial and film (content), session (file), trial, film (repeat) or "
                f"tier, not by {self.splits.by}"
            )
        if self.splits.by == "tier" and self.source.names.tier is None:
            raise ValueError("splits.by: tier needs source.names.tier, an array with the tier of each trial")
        return self
